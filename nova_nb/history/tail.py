"""A log read from its end: the active chain and what gives it meaning, nothing older.

Knows: how far back the chain reaches, and how an anchor saves the search for what lies before it.
Gives the same chain and the same state as reading everything; older history is read on demand.

An *anchor* is a note that follows a boundary. It holds the places of the few earlier events that
the chain still needs: the prompt in force, the last request, the last checkpoint, and the commits
that change kept messages. It is a hint: each place is checked, and when one does not hold the log
is read from its start.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec

from .chain import carried
from .events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    MessageAppended,
    Note,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    RequestSent,
    RuntimeStateCheckpointed,
    SessionStarted,
)
from .log import Damage
from .reading import Part, decode, parts, rows_of, torn_clause, whole_message

BLOCK = 1 << 18
_MESSAGE = re.compile(rb'\{"type":"message_appended","id":"([!#-\[\]-~]+)"')
"""The beginning of a message's line, with an id that stands there as it is."""

Place = int | tuple[int, int]
"""Where a line begins: a byte offset in the session's own file, or (n, offset) in that of its n-th ancestor."""

_OFF_PATH = MessageAppended(id="", role="", content=[])
"""stands for a message of another branch, which was not decoded"""

PLACED = (PromptSet, RuntimeStateCheckpointed, RequestSent, ProjectionCommitted)
"""Events whose place an anchor may have to name."""


@dataclass
class Loaded:
    """What `load` found. `whole` says whether it is the whole log."""

    events: list[Event]
    places: dict[str, Place] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    whole: bool = False
    steps: int = 0
    """the highest number of a model call met, also of those that were not loaded"""


def load(directory: Path) -> Loaded:
    """The session in `directory`, read from the end of its log only as far as its active chain needs."""
    found, damage = parts(directory)
    scan = _Scan()
    with uncollected():
        for depth, part in enumerate(found):
            if depth:
                scan.know(part.node)
            if _scan(part, depth, scan):
                break
        else:
            scan.at_start = True
        loaded = _assemble(found, scan)
    if loaded is None:
        return load_whole(directory)
    loaded.damage = damage + [_numbered(found[0].path, offset, d) for offset, d in reversed(scan.damage)]
    return loaded


def load_whole(directory: Path) -> Loaded:
    """The same with everything that the log holds."""
    found, damage = parts(directory)
    rows, bad = rows_of(found)
    places: dict[str, Place] = {
        row.event.id: row.offset if row.depth == 0 else (row.depth, row.offset) for row in rows if isinstance(row.event, PLACED)
    }
    steps = max((row.event.step for row in rows if isinstance(row.event, RequestSent)), default=0)
    return Loaded([row.event for row in rows], places, damage + bad, True, steps)


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: values are only made here, and looking through them again and again is a third of the time.

    What was made then counts as old, as if it had been looked through: else the next object made would have all of it looked through.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not gc.get_freeze_count():  # a program that froze objects itself keeps them frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Scan:
    """What is known while going backwards: which nodes the chain still needs, and every event met so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        """the last first"""
        self.places: dict[str, Place] = {}
        self.damage: list[tuple[int, Damage]] = []
        self.need: set[str] = set()
        self.path: set[str] = set()
        self.known = False
        self.boundary: CompactionBoundaryCreated | None = None
        self.anchor: Note | None = None
        self.anchors: dict[str, Note] = {}
        self.anchor_depth: dict[str, int] = {}
        self.steps = 0
        self.at_start = self.branched = False

    def know(self, head: str | None) -> None:
        """The recorded head; the first one met from the end counts."""
        if not self.known:
            self.known = True
            if head is not None:
                self.need.add(head)

    def take(self, depth: int, offset: int, event: Event) -> None:
        """The next older event. The starts of sessions are left out: `parts` knows them."""
        if isinstance(event, SessionStarted):
            return
        self.events.append(event)
        if isinstance(event, PLACED):
            self.places[event.id] = offset if depth == 0 else (depth, offset)
        if isinstance(event, MessageAppended):
            if not self.known:
                self.know(event.id)
            if event.id in self.need:
                self.on_path(event)
            else:
                self.branched = True
        elif isinstance(event, CompactionBoundaryCreated):
            self.know(event.id)
            if event.id not in self.need:
                self.branched = True
                return
            self.need.remove(event.id)
            self.path.add(event.id)
            if self.boundary is None:
                self.boundary = event
                self.anchor = self.anchors.get(event.id)
                self.need.update(id for id in event.kept if id not in self.path)
        elif isinstance(event, BranchSelected):
            self.know(event.leaf)
            self.branched = True
        elif isinstance(event, RequestSent):
            self.steps = max(self.steps, event.step)
        elif isinstance(event, Note) and event.kind == "anchor":
            of = str(event.meta.get("boundary"))
            self.anchors[of], self.anchor_depth[of] = event, depth
            steps = event.meta.get("steps")
            self.steps = max(self.steps, steps if isinstance(steps, int) else 0)

    def on_path(self, message: MessageAppended) -> None:
        """A message that the chain needs was met; up to the boundary its parent is needed too."""
        self.need.remove(message.id)
        self.path.add(message.id)
        if message.parent is not None and self.boundary is None:
            self.need.add(message.parent)

    @property
    def done(self) -> bool:
        return self.known and not self.need and self.anchor is not None


def _scan(part: Part, depth: int, scan: _Scan) -> bool:
    """Read one file backwards; True when nothing older is needed."""
    events, need = scan.events, scan.need
    fd = os.open(part.path, os.O_RDONLY)
    try:
        for offset, line, ended in rows_from_end(fd, part.end):
            # most lines by far are messages that are as they were written: they are asked first whether the chain needs them
            if scan.known and (begin := _MESSAGE.match(line)) is not None:
                id = begin[1].decode()
                if id not in need:
                    scan.branched = True
                    events.append(_OFF_PATH)
                    continue
                if (message := whole_message(line)) is not None and message.id == id:
                    events.append(message)
                    scan.on_path(message)
                    continue
            data = bytes(line)
            found, kind, clause = decode(data)
            if kind:
                if not found and not ended:
                    kind, clause = "torn", torn_clause(data)
                if depth == 0:
                    scan.damage.append((offset, Damage(0, kind, clause, len(found))))
            for event in reversed(found):
                scan.take(depth, offset, event)
            if scan.done:
                return True
        return False
    finally:
        os.close(fd)


def rows_from_end(fd: int, end: int) -> Iterator[tuple[int, memoryview, bool]]:
    """Lines without their line ends, the last one first: (where it begins, bytes, whether it has a line end)."""
    behind: list[bytes] = []  # what was read already of the line that the next block ends with, last piece first
    ended = False
    at = end
    while at > 0:
        size = min(BLOCK, at)
        at -= size
        block = os.pread(fd, size, at)
        stop = block.rfind(b"\n")
        behind.append(block[stop + 1 :])
        if stop < 0:
            continue
        if line := b"".join(reversed(behind)):
            yield at + stop + 1, memoryview(line), ended
        ended = True
        view = memoryview(block)
        while (before := block.rfind(b"\n", 0, stop)) >= 0:
            if stop - before > 1:
                yield at + before + 1, view[before + 1 : stop], True
            stop = before
        behind = [block[:stop]]
    if line := b"".join(reversed(behind)):
        yield 0, memoryview(line), ended


def _assemble(found: list[Part], scan: _Scan) -> Loaded | None:
    """Events in the order of the log; None when a node is missing (it may share a line with another, or be lost), when
    the boundary has no anchor, or when the anchor does not hold."""
    if scan.need:
        return None
    events = scan.events[::-1]
    places, whole = scan.places, False
    if scan.boundary is not None:
        rows = None if scan.anchor is None else _named(found, scan.anchor, scan.anchor_depth[scan.boundary.id])
        if rows is None:
            return None
        before = [event for _, _, event in rows]
        events = _merged(events, scan.path, scan.boundary, before)
        places.update((event.id, offset if depth == 0 else (depth, offset)) for depth, offset, event in rows)
    else:
        if scan.branched:
            events = list(compress(events, carried(events, scan.path)))
        whole = scan.at_start and len(events) == len(scan.events)
    if (start := found[0].start) is not None:
        events.insert(0, start)
    return Loaded(events, places, [], whole, scan.steps)


def _merged(events: list[Event], path: set[str], boundary: CompactionBoundaryCreated, before: list[Event]) -> list[Event]:
    """The events that belong to `path`, with those that the anchor names. Commits made before the boundary come from the
    anchor alone.

    They stand first and without their node, which is not loaded: a commit without one counts on
    every branch, as these do on every continuation of this boundary.
    """
    commits: list[Event] = [msgspec.structs.replace(e, leaf=None) for e in before if isinstance(e, ProjectionCommitted)]
    named = {e.id: e for e in before if not isinstance(e, ProjectionCommitted)}
    at = next(i for i, event in enumerate(events) if event is boundary)
    on = list(carried(events, path))
    early = [
        event for event, here in zip(events[:at], on, strict=False)
        if named.pop(event.id, None) is not None or (here and not isinstance(event, ProjectionCommitted | ProjectionUndone))
    ]  # fmt: skip
    return [*commits, *named.values(), *early, *compress(events[at:], on[at:])]


def _named(found: list[Part], anchor: Note, depth: int) -> list[tuple[int, int, Event]] | None:
    """The rows that an anchor names, in the order of the log; None when one is not where it says."""
    out: list[tuple[int, int, Event]] = []
    wanted = anchor.meta.get("places")
    if not isinstance(wanted, dict):
        return None
    for id, place in wanted.items():
        n, offset = (0, place) if isinstance(place, int) else place if _pair(place) else (-1, 0)
        n += depth
        event = _event_at(found[n], offset) if 0 <= n < len(found) else None
        if event is None or event.id != id or not isinstance(event, PLACED):
            return None
        out.append((n, offset, event))
    return sorted(out, key=lambda row: (-row[0], row[1]))


def _pair(place: Any) -> bool:
    return isinstance(place, list | tuple) and len(place) == 2 and all(isinstance(n, int) for n in place)


def _event_at(part: Part, offset: int) -> Event | None:
    if not 0 <= offset < part.end:
        return None
    with part.path.open("rb") as file:
        file.seek(offset)
        events, kind, _ = decode(file.readline().rstrip(b"\r\n"))
    return events[0] if len(events) == 1 and not kind else None


def _numbered(path: Path, offset: int, damage: Damage) -> Damage:
    """The damage with its line, which is counted only where there is damage."""
    count, at = 1, 0
    with path.open("rb") as file:
        while at < offset and (block := file.read(min(BLOCK, offset - at))):
            count, at = count + block.count(b"\n"), at + len(block)
    return msgspec.structs.replace(damage, line=count, message=f"line {count}: {damage.message}")
