"""The log on disk: one JSON line an event, only ever appended.

Knows: bytes and lines of one file. Does not know what events mean.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..errors import LogWriteError, NotASession
from .events import Event, from_json, to_json
from .log import Damage, Log, Source


class Journal:
    """Appends events to `path`; `append` returns when the line is with the operating system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, event: Event) -> Event:
        try:
            os.write(self._fd, to_json(event) + b"\n")
            return event
        except OSError as error:
            raise LogWriteError(f"{self.path}: the log could not be written ({error.strerror})") from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read(path: str | os.PathLike[str]) -> Log:
    """The whole log. Bad lines are named in `damage`; everything else is read."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    events: list[Event] = []
    lines: list[int] = []
    damage: list[Damage] = []
    rows = data.split(b"\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            events.append(from_json(row))
            lines.append(number)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            torn = number == len(rows)
            damage.append(Damage(number, "torn" if torn else "not-json", f"line {number}: {error}"))
    first = events[0] if events else None
    source = Source(str(path), "nova", getattr(first, "nova", None), getattr(first, "session", ""), len(data))
    return Log(source, events, lines, damage)
