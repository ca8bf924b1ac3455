"""Does the summary hold what the task names? Where it does not, the originals are fetched (R5.7, [004]).

Knows: how to find names that a task mentions, that stood in the summarised part, and that no longer
stand in the request; and how to quote the passages that hold them. Does not search other sessions or
an index (`memory` does); it may be given a function that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..settings import ContextSettings
from .pieces import Piece
from .spill import result_text
from .summary import escape, symbols_in

PASSAGE_CHARS = 600
"""characters of one quoted passage, around the name"""

Retrieve = Callable[[str], Sequence[tuple[str, str]]]
"""`retrieve(name)` gives (event id, passage) pairs, best first."""


class Recalled(msgspec.Struct, frozen=True):
    """What was missing and what came back. `text` is for a message of the harness (state "memory")."""

    missing: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    text: str = ""


def missing(task: str, request: Sequence[Piece], originals: Sequence[Piece]) -> list[str]:
    """Names of the task that the summarised originals hold and the request does not."""
    names = symbols_in(task)
    if not names:
        return []
    before = "\n".join(words(p) for p in originals)
    now = "\n".join(words(p) for p in request)
    return [name for name in names if name in before and name not in now]


def check(
    task: str,
    request: Sequence[Piece],
    originals: Sequence[Piece],
    settings: ContextSettings,
    retrieve: Retrieve | None = None,
) -> Recalled:
    """The confidence check of a task against a summary. Nothing missing: an empty `Recalled`.

    `request` are the pieces now (without the task), `originals` those that the compaction summarised.
    At most `confidence_top_k` passages come back, the newest ones that hold a missing name.
    """
    names = missing(task, request, originals)
    if not names or not settings.confidence_top_k:
        return Recalled(tuple(names))
    passages: dict[str, str] = {}
    for name in names:
        found = retrieve(name) if retrieve is not None else _newest(name, originals)
        for id, passage in found:
            if len(passages) < settings.confidence_top_k and id not in passages:
                passages[id] = passage
                break
    if not passages:
        return Recalled(tuple(names))
    quoted = "\n\n".join(f"From message {id}:\n{escape(text)}" for id, text in passages.items())
    intro = f"<memory>\nThe summary lacks {', '.join(names)}. Original passages:"
    return Recalled(tuple(names), tuple(passages), f"{intro}\n\n{quoted}\n</memory>")


def _newest(name: str, originals: Sequence[Piece]) -> list[tuple[str, str]]:
    found = []
    for piece in reversed(originals):
        text = words(piece)
        at = text.find(name)
        if at >= 0:
            start = max(0, at - PASSAGE_CHARS // 2)
            found.append((piece.sources[0], text[start : start + PASSAGE_CHARS]))
    return found


def words(piece: Piece) -> str:
    """All text of a piece, a call's arguments included."""
    block = piece.block
    if block.get("type") == "tool_result":
        return result_text(block)
    if block.get("type") == "tool_use":
        return f"{block.get('name')} {msgspec.json.encode(block.get('input')).decode()}"
    return block.get("text") or ""
