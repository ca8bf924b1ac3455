"""What a resume finds that the session was not told: calls without a result, damage, a writer that died.

Knows: the last unit of a chain and which of its calls had begun. Does not make the protocol whole
(that is the projection's repair, which tells the model); here it is said once, as events, to the
person. Nothing is run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from .events import BranchSelected, Event, MessageAppended, Note, ToolStarted
from .lease import Writer
from .live import LiveLog
from .log import Damage

_SPACE = uuid.UUID("6f1c7d0e-9a53-5a0b-8f0e-0d7d3b6a4c11")


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result. `state`: "unknown after crash" (it had started) or "never started"."""

    id: str
    name: str
    state: str


def open_calls(chain: Sequence[Any], events: Iterable[Event]) -> list[OpenCall]:
    """Calls of the chain's last assistant message that no message answers, on this branch or another."""
    message = next((n for n in reversed(chain) if isinstance(n, MessageAppended) and n.role == "assistant"), None)
    if message is None:
        return []
    calls = [b for b in message.content if b.get("type") == "tool_use"]
    started: set[object] = set()
    answered: set[object] = set()
    after = False
    for event in events if calls else ():
        if event.id == message.id:
            after = True
        elif after and isinstance(event, ToolStarted):
            started.add(event.tool_use_id)
        elif after and isinstance(event, MessageAppended):
            answered.update(b.get("tool_use_id") for b in event.content if b.get("type") == "tool_result")
    return [
        OpenCall(str(c.get("id")), str(c.get("name")), "unknown after crash" if c.get("id") in started else "never started")
        for c in calls
        if c.get("id") not in answered
    ]


def report(live: LiveLog, damage: Iterable[Damage], dead: Writer | None) -> list[Note]:
    """The notes that a resume appends. Their ids come from what they say, so that it is said once."""
    notes: list[Note] = []
    if dead is not None:
        message = f"the last writer, {dead}, ended without closing the session"
        notes.append(_note(live, "writer_died", message, {"pid": dead.pid, "host": dead.host, "since": dead.since}))
    for d in damage:
        notes.append(_note(live, "damaged_line", d.message, {"line": d.line, "kind": d.kind}, f"line {d.line}"))
    calls = open_calls(live.chain, live.events)
    if calls and not live.whole and any(isinstance(event, BranchSelected) for event in live.events):
        live.load_older()  # the answer may stand on a branch that was not loaded
        calls = open_calls(live.chain, live.events)
    if calls:
        message = "; ".join(f"{c.name} ({c.id}): {c.state}" for c in calls) + "; nothing was run again"
        notes.append(_note(live, "open_calls", message, {"calls": [msgspec.to_builtins(c) for c in calls]}))
    said = {event.id for event in live.events} if notes else set()
    return [note for note in notes if note.id not in said]


def found_by_resume(events: Sequence[Event]) -> list[Note]:
    """The notes of `report` that stand at the end of a log: nothing has been done since they were said."""
    kinds = {"writer_died", "damaged_line", "open_calls", "runtime_differs"}
    last = list(takewhile(lambda event: isinstance(event, Note) and event.kind in kinds, reversed(events)))
    return [note for note in reversed(last) if isinstance(note, Note) and note.kind != "runtime_differs"]


def _note(live: LiveLog, kind: str, message: str, meta: dict[str, Any], key: str = "") -> Note:
    id = uuid.uuid5(_SPACE, f"{live.session_id}\n{kind}\n{key or message}")
    return Note(id=f"n_{id.hex}", at=live.now(), kind=kind, message=message, meta=meta)
