"""A Gemini CLI session replayed: the list of messages as it stood before each model call.

Knows: the patch log of newer versions (JSON lines), the single object of older ones, and a saved
checkpoint. Does not know what a list of messages is sent as (`contents`).

A row with an id replaces the message with that id or is appended; `$set.messages` replaces all;
`$rewindTo` cuts from an id on. A new header row is a new process: a resume.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..common import Json, as_dict, as_int, as_list, as_str
from .parts import SNAPSHOT, calls_of, model_parts, parts_of, signature

PAUSE = 0.5
"""Seconds from which on a question followed by another was sent by itself."""


@dataclass
class Message:
    """A message of the list. `copy`: it came with a whole list, not on a row of its own."""

    id: str
    data: Json
    line: int
    copy: bool = False

    @property
    def kind(self) -> str:
        return as_str(self.data.get("type"))


@dataclass
class Call:
    """A model call: the list it was sent and the record that answers it.

    `batches` > 0: the answer's own record is the last of the list, with its first calls only (older versions).
    `tail`: how many contents at the end a compression left alone.
    """

    before: list[Message]
    answer: Message | None
    line: int
    kind: str = "main"
    batches: int = 0
    tail: int = 0


@dataclass
class Replay:
    """What a file tells, folded row by row."""

    header: Json = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    records: dict[str, Message] = field(default_factory=dict)
    """every message once, as it stood last, in the order of first appearance"""
    calls: list[Call] = field(default_factory=list)
    rewound: list[tuple[int, str | None, list[str]]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    snapshots: list[tuple[int, Message]] = field(default_factory=list)
    dropped: dict[str, tuple[str, str]] = field(default_factory=dict)
    other: list[tuple[int, Json]] = field(default_factory=list)
    lines: bool = True

    def row(self, line: int, row: Json) -> None:
        """Take one line of a patch log."""
        change = row.get("$set")
        if isinstance(change, dict):
            if isinstance(change.get("messages"), list):
                self._replace(line, change["messages"])
            self.other.append((line, row))
        elif "$rewindTo" in row:
            self._rewind(line, as_str(row.get("$rewindTo")))
        elif "sessionId" in row and "type" not in row:
            self.header = self.header or row
            self._new_process()
            self.other.append((line, row))
            for message in as_list(row.get("messages")):
                self.message(line, as_dict(message))
        elif as_str(row.get("id")) and as_str(row.get("type")):
            self.message(line, row)
        else:
            self.other.append((line, row))

    def message(self, line: int, data: Json) -> None:
        """A message row: a new one, or a newer version of one."""
        id = as_str(data.get("id")) or f"L{line}"
        at = next((i for i in range(len(self.messages) - 1, -1, -1) if self.messages[i].id == id), None)
        new = Message(id, data, line)
        self.records[id] = new
        self.seen.add(id)
        if at is not None and not self.messages[at].copy:
            self.messages[at] = new
            if self.calls and self.calls[-1].answer is not None and self.calls[-1].answer.id == id:
                self.calls[-1].answer = new
            return
        if new.kind == "gemini":
            self.calls.append(Call(list(self.messages), new, line))
        elif new.kind == "user" and not self.lines:
            self._asked_again(new)
        self.messages.append(new)

    def _asked_again(self, new: Message) -> None:
        """Two questions in a row in an older file, with a pause between: the first was sent and lost its answer."""
        last = next((m for m in reversed(self.messages) if m.kind in ("user", "gemini")), None)
        if last is not None and last.kind == "user" and pause(last.data, new.data) >= PAUSE:
            self.calls.append(Call(list(self.messages), None, last.line))

    def _replace(self, line: int, given: list[Any]) -> None:
        old = self.messages
        new = [Message(as_str(as_dict(m).get("id")) or f"L{line}:{n}", as_dict(m), line, True) for n, m in enumerate(given)]
        snapshot = next((m for m in new if SNAPSHOT in _text(m) and m.id not in self.seen), None)
        if snapshot is not None:
            kept = {_key(m) for m in new}
            gone = [m.id for m in old if _key(m) not in kept]
            tail = max(len(new) - new.index(snapshot) - 2, 0)
            for _ in range(2):
                self.calls.append(Call(list(old), None, line, "compact", 0, tail))
            self.snapshots.append((line, snapshot))
            self.dropped |= dict.fromkeys(gone, ("boundary", f"behind the compression at line {line}"))
        for m in new:
            if m.id not in self.seen and snapshot is None and not m.id.endswith("_response"):
                self.records[m.id] = Message(m.id, m.data, line)
            self.seen.add(m.id)
        self.messages = new

    def _new_process(self) -> None:
        """A header: where the last words had no answer yet, they were sent and the answer was lost."""
        last = next((m for m in reversed(self.messages) if m.kind in ("user", "gemini")), None)
        if last is not None and last.kind == "user" and not last.copy:
            self.calls.append(Call(list(self.messages), None, last.line))

    def _rewind(self, line: int, id: str) -> None:
        at = next((i for i, m in enumerate(self.messages) if m.id == id), 0)
        gone = [m.id for m in self.messages[at:]]
        for name in gone:
            self.dropped[name] = ("branch", f"rewound at line {line}")
        self.messages = self.messages[:at]
        self.rewound.append((line, self.messages[-1].id if self.messages else None, gone))

    def whole(self, data: Json) -> None:
        """The single object of an older version."""
        self.lines = False
        self.header = {key: value for key, value in data.items() if key != "messages"}
        for n, message in enumerate(as_list(data.get("messages")), 1):
            message = as_dict(message)
            self.message(n, message)
            batches = batches_of(message)
            answer = self.calls[-1].answer if self.calls else None
            for k in range(1, len(batches)):
                self.calls.append(Call(list(self.messages), answer, n, "main", k))


def batches_of(message: Json) -> list[list[Json]]:
    """Calls of a record by the time they were finished: a later time was a model call of its own.

    Older versions put the calls of an answer without text into the record before it.
    """
    out: list[list[Json]] = []
    for call in calls_of(message):
        if out and out[-1][0].get("timestamp") == call.get("timestamp"):
            out[-1].append(call)
        else:
            out.append([call])
    return out


def pause(a: Json, b: Json) -> float:
    """Seconds between two records; 0 where one has no time.

    >>> pause({"timestamp": "2026-01-01T00:00:00Z"}, {"timestamp": "2026-01-01T00:00:02Z"})
    2.0
    """
    try:
        first, second = (datetime.fromisoformat(as_str(record.get("timestamp"))) for record in (a, b))
        return (second - first).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _text(message: Message) -> str:
    return "".join(as_str(part.get("text")) for part in parts_of(message.data.get("content")))


def _key(message: Message) -> tuple[str, ...]:
    return signature(model_parts(message.data) if message.kind == "gemini" else parts_of(message.data.get("content")))


def tokens_of(message: Message) -> Json:
    tokens = as_dict(message.data.get("tokens"))
    return {key: as_int(tokens.get(key)) for key in ("input", "output", "cached", "thoughts", "tool")}
