"""A session as it was read: its events, where each stands in the file, and what was broken.

Knows: positions, ids, damage. Does not know which agent's rules turn events into a request; that
is a `Format` (see `nova_nb.foreign.base`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from .events import Event


class Damage(msgspec.Struct, frozen=True):
    """One place of the file that could not be read as it should be. Nothing else was lost by it."""

    line: int
    """1-based physical line, split at \\n alone"""
    kind: str
    """"torn" (cut at the end) | "nul" | "spliced" (two records on a line) | "not-json" | "not-utf8" | "too-deep" """
    message: str
    recovered: int = 0
    """records that were read from the line all the same"""


class Source(msgspec.Struct, frozen=True):
    """Where a session came from."""

    path: str
    format: str
    """"nova" | "claude-code" | "codex" | …"""
    agent_version: str | None = None
    session_id: str = ""
    size: int = 0
    """bytes on disk"""


@dataclass(frozen=True, eq=False)
class Log:
    """Events in file order, with `lines[i]` the physical line of `events[i]`.

    Event ids are unique here: a reader that meets an id again names the later event
    `"<id>#L<line>"`; `record_id` gives the id as it stands in the file.
    `native` is what the format's own rules need beyond the events (its rows, its settings).
    """

    source: Source
    events: list[Event]
    lines: list[int]
    damage: list[Damage] = field(default_factory=list)
    native: Any = None

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each event by id."""
        return {event.id: i for i, event in enumerate(self.events)}

    def get(self, id: str) -> Event | None:
        """The event with this id, or None."""
        i = self.index.get(id)
        return None if i is None else self.events[i]

    def line(self, id: str) -> int | None:
        """Physical line of the event with this id, or None."""
        i = self.index.get(id)
        return None if i is None else self.lines[i]


def record_id(event_id: str) -> str:
    """The id as the file has it: without the mark that made a repeated one unique.

    >>> record_id("a1#L40"), record_id("a1")
    ('a1', 'a1')
    """
    head, mark, tail = event_id.rpartition("#L")
    return head if mark and tail.isdigit() else event_id
