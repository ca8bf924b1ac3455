"""What the model sees, piece by piece, each with where it came from and why it looks so.

Knows: the shape of a projection. Does not know how one is made (`project` for Nova's own
sessions, `nova_nb.foreign` for those of other agents) nor any provider's words (`request`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..history.events import Block
from .canonical import encode

STATES = ("whole", "preview", "placeholder", "folded", "summary", "attachment", "memory", "reminder", "repair")
"""How a piece relates to its sources:

whole        verbatim
preview      the shown part of a result that was written to a file
placeholder  the result was reclaimed; a line says so
folded       a short text stands for a run of messages
summary      a compaction's summary
attachment   rebuilt context after a compaction
memory       instructions or memories injected from outside the conversation
reminder     text that the harness put in
repair       made up so that the protocol holds (a result for a call that has none)
"""


class Piece(msgspec.Struct, frozen=True, gc=False):  # plain data, never in a cycle: nothing for the collector to visit
    """One content block of a request.

    `key` is stable over steps: the same piece has the same key. Adjacent pieces with one
    `message` are one message. `sources` are event ids. `chars` counts the block's text.
    """

    key: str
    message: str
    role: str
    block: Block
    sources: tuple[str, ...]
    state: str = "whole"
    reason: str = ""
    chars: int = 0
    original: str | None = None
    """where the whole is to be found, when the piece is not whole: an artifact's path or an event id"""


class Projection(msgspec.Struct, frozen=True):
    """The messages of one request as pieces, with the prompt that stands before them.

    `system` and `tools` are None where the log does not hold them; `unknown` says in words what
    is missing from what was really sent. `left` gives a reason for events that might be expected
    here and are not: event id → (layer, sentence). `unsure` are events of which the log cannot tell
    whether this request carried their text: pieces that may not have been sent, or rows that may
    have been put in again.
    """

    pieces: Sequence[Piece]
    system: list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    unknown: tuple[str, ...] = ()
    left: dict[str, tuple[str, str]] = {}
    unsure: frozenset[str] = frozenset()


def block_chars(block: Block) -> int:
    """Characters a model reads of a block: its text, or the JSON of a call's input; images count 0 (their size is tokens).

    >>> block_chars({"type": "text", "text": "abc"}), block_chars({"type": "tool_use", "id": "1", "name": "ls", "input": {}})
    (3, 4)
    """
    kind = block.get("type")
    if kind == "text":
        return len(block.get("text") or "")
    if kind == "tool_result":
        content = block.get("content")
        if isinstance(content, str):
            return len(content)
        return sum(block_chars(part) for part in content or [] if isinstance(part, dict))
    if kind == "tool_use":
        return len(block.get("name") or "") + len(encode(block.get("input")))
    if kind == "thinking":
        return len(block.get("thinking") or "")
    return 0


def messages_of(pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """Neutral messages: adjacent pieces of one message are its blocks, in order."""
    messages: list[dict[str, Any]] = []
    last: tuple[str, str] | None = None
    for piece in pieces:
        if last == (piece.message, piece.role):
            messages[-1]["content"].append(piece.block)
        else:
            messages.append({"role": piece.role, "content": [piece.block]})
            last = (piece.message, piece.role)
    return messages
