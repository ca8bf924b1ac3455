"""Protocol units made whole, once, in one place, before a request is sent (R6.2).

Knows: what the wire refuses of one *segment*, an assistant message with the user messages that
answer it, and the smallest change that makes it whole. Does not know the log; that a repair
happened is seen in the pieces (state "repair") and in `Segment.left`.

Every repair is a function of the segment and of the ids used before it, so the same history is
repaired to the same bytes each time, and a made-up result keeps its call's own id.
"""

from __future__ import annotations

import itertools
from collections.abc import Set
from dataclasses import dataclass, field

from ..history.events import Block
from .pieces import Piece, block_chars

NOT_RUN = "[No result: this call never started. It was interrupted before the tool ran.]"
UNKNOWN = "[No result: the tool started and its outcome is unknown; the session ended before it was recorded. Check before running it again.]"
OPENING = "[The conversation goes on from here; what came before is not part of this request.]"

Message = list[Piece]


@dataclass
class Segment:
    """Messages from an assistant message up to the next one; `left` says what is not sent and why."""

    messages: list[Message]
    left: dict[str, tuple[str, str]] = field(default_factory=dict)


def repair(segment: Segment, started: Set[str] = frozenset(), taken: Set[str] = frozenset(), first: bool = False) -> Segment:
    """The segment as the wire takes it.

    `started` are ids of calls that began to run, `taken` ids of calls in earlier segments, `first`
    whether nothing stands before it. A whole segment comes back as it was.
    """
    left = dict(segment.left)
    messages = [m for m in segment.messages if m]
    messages = _without_empty(messages, left)
    if not messages:
        return Segment([], left)
    calls = _calls(messages[0])
    renamed = {id: _fresh(id, taken) for id in calls if id in taken}
    if renamed:
        messages = [[_rename(p, renamed) for p in m] for m in messages]
        calls = [renamed.get(id, id) for id in calls]
    if len(set(calls)) != len(calls):
        messages[0] = _first_of_each(messages[0], left)
        calls = list(dict.fromkeys(calls))
    answered: set[str] = set()
    out = [messages[0]] if messages[0][0].role == "assistant" else []
    for message in messages[len(out) :]:
        kept = []
        for piece in message:
            if piece.block.get("type") == "tool_result":
                id = piece.block.get("tool_use_id", "")
                if id not in calls or id in answered:
                    why = "a second result for one call" if id in answered else "a result without its call"
                    left[piece.sources[0]] = ("pairing", f"{why} ({id})")
                    continue
                answered.add(id)
            kept.append(piece)
        if kept:
            out.append(kept)
    open_calls = [id for id in calls if id not in answered]
    if open_calls:
        _answer(out, open_calls, {renamed.get(id, id) for id in started})
    if len(calls) > 0:
        out[1:] = _results_first(out[1:])
    if first and out and out[0][0].role == "assistant":
        out.insert(0, [made_up("opening", OPENING, out[0][0].sources)])
    return Segment(out, left)


def made_up(key: str, text: str, sources: tuple[str, ...], state: str = "repair") -> Piece:
    """A user text of the harness that is in no event of its own."""
    return Piece(f"{sources[0]}:{key}", f"{sources[0]}:{key}", "user", {"type": "text", "text": text}, sources, state,
                 "made up so that the protocol holds", len(text))  # fmt: skip


def _calls(message: Message) -> list[str]:
    return [p.block.get("id", "") for p in message if p.block.get("type") == "tool_use"]


def _without_empty(messages: list[Message], left: dict[str, tuple[str, str]]) -> list[Message]:
    out = []
    for message in messages:
        kept = [p for p in message if not (p.block.get("type") == "text" and not (p.block.get("text") or "").strip())]
        if kept and not (kept[0].role == "assistant" and all(p.block.get("type") == "thinking" for p in kept)):
            out.append(kept)
        else:
            left[message[0].sources[0]] = ("pairing", "an empty message; the wire takes none")
    return out


def _fresh(id: str, taken: Set[str]) -> str:
    n = 2
    while f"{id}_{n}" in taken:
        n += 1
    return f"{id}_{n}"


def _rename(piece: Piece, renamed: dict[str, str]) -> Piece:
    field_name = "id" if piece.block.get("type") == "tool_use" else "tool_use_id"
    new = renamed.get(piece.block.get(field_name, ""))
    return piece if new is None else replaced(piece, {**piece.block, field_name: new}, "repair", "the id was used before")


def replaced(piece: Piece, block: Block, state: str, reason: str, original: str | None = None) -> Piece:
    """The same piece with another block."""
    return Piece(piece.key, piece.message, piece.role, block, piece.sources, state, reason, block_chars(block),
                 original or piece.original)  # fmt: skip


def _first_of_each(message: Message, left: dict[str, tuple[str, str]]) -> Message:
    seen: set[str] = set()
    out = []
    for piece in message:
        if piece.block.get("type") == "tool_use":
            id = piece.block.get("id", "")
            if id in seen:
                left[piece.sources[0]] = ("pairing", f"the id {id} twice in one message")
                continue
            seen.add(id)
        out.append(piece)
    return out


def _answer(out: list[Message], open_calls: list[str], started: Set[str]) -> None:
    """Put a made-up result for each open call into the message right after the calls."""
    made = []
    for id in open_calls:
        call = next(p for p in out[0] if p.block.get("id") == id)
        text = UNKNOWN if id in started else NOT_RUN
        block = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True}
        reason = "unknown after crash" if id in started else "the call has no result"
        made.append((f"{call.key}:result", block, call.sources, reason))
    into = out[1][0].message if len(out) > 1 and out[1][0].role == "user" else f"{out[0][0].message}:results"
    pieces = [
        Piece(key, into, "user", block, sources, "repair", reason, block_chars(block)) for key, block, sources, reason in made
    ]
    if len(out) > 1:
        results = [p for p in out[1] if p.block.get("type") == "tool_result"]
        rest = [p for p in out[1] if p.block.get("type") != "tool_result"]
        out[1] = results + pieces + rest
    else:
        out.append(pieces)


def _results_first(messages: list[Message]) -> list[Message]:
    """Results stand before any text that follows the same calls; the wire reads adjacent user messages as one."""
    flat = [p for m in messages for p in m]
    kinds = [p.block.get("type") == "tool_result" for p in flat]
    if kinds == sorted(kinds, reverse=True):
        return messages
    ordered = sorted(flat, key=lambda p: p.block.get("type") != "tool_result")
    return [list(group) for _, group in itertools.groupby(ordered, key=lambda p: p.message)]
