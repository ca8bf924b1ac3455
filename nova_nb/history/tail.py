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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

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
_MESSAGE = b'{"type":"message_appended","id":"'

Place = int | tuple[int, int]
"""Where a line begins: a byte offset in the session's own file, or (n, offset) in that of its n-th ancestor."""

Row = tuple[int, int, Event]
"""(depth of the file, offset, event)"""

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
    """No garbage collection meanwhile: values are only made here, and looking through them again and again is a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Scan:
    """What is known while going backwards: which nodes the chain still needs, and every row met so far."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, Event | None]] = []
        """(depth, offset, event), the last first; None stands for a message of another branch, not decoded"""
        self.damage: list[tuple[int, Damage]] = []
        self.need: set[str] = set()
        self.path: set[str] = set()
        self.known = False
        self.boundary: CompactionBoundaryCreated | None = None
        self.anchor: Note | None = None
        self.anchors: dict[str, Note] = {}
        self.anchor_depth: dict[str, int] = {}
        self.steps = 0
        self.at_start = self.skipped = False

    def know(self, head: str | None) -> None:
        """The recorded head; the first one met from the end counts."""
        if not self.known:
            self.known = True
            if head is not None:
                self.need.add(head)

    def take(self, depth: int, event: Event) -> None:
        if isinstance(event, MessageAppended):  # most events by far: asked first
            if not self.known:
                self.know(event.id)
            if event.id in self.need:
                self.on_path(event)
        elif isinstance(event, CompactionBoundaryCreated):
            self.know(event.id)
            if event.id in self.need:
                self.need.remove(event.id)
                self.path.add(event.id)
                if self.boundary is None:
                    self.boundary = event
                    self.anchor = self.anchors.get(event.id)
                    self.need.update(id for id in event.kept if id not in self.path)
        elif isinstance(event, BranchSelected):
            self.know(event.leaf)
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
    rows, need = scan.rows, scan.need
    fd = os.open(part.path, os.O_RDONLY)
    try:
        for offset, line, ended in rows_from_end(fd, part.end):
            if scan.known and line.startswith(_MESSAGE):
                id = line[len(_MESSAGE) : line.find(b'"', len(_MESSAGE))].decode("utf-8", "replace")
                if id not in need:
                    if "\\" not in id:
                        scan.skipped = True
                        rows.append((depth, offset, None))
                        continue
                elif (message := whole_message(line)) is not None and message.id == id:
                    rows.append((depth, offset, message))
                    scan.on_path(message)
                    continue
            events, kind, clause = decode(line)
            if kind:
                if not events and not ended:
                    kind, clause = "torn", torn_clause(line)
                if depth == 0:
                    scan.damage.append((offset, Damage(0, kind, clause, len(events))))
            for event in reversed(events):
                rows.append((depth, offset, event))
                scan.take(depth, event)
            if scan.done:
                return True
        return False
    finally:
        os.close(fd)


def rows_from_end(fd: int, end: int) -> Iterator[tuple[int, bytes, bool]]:
    """Lines without their line ends, the last one first: (where it begins, bytes, whether it has a line end)."""
    behind: list[bytes] = []  # the part of a line that was read already, last piece first
    ended = False
    at = end
    while at > 0:
        size = min(BLOCK, at)
        at -= size
        block = os.pread(fd, size, at)
        lines = block.split(b"\n")
        if len(lines) == 1:
            behind.append(block)
            continue
        offset = at + len(block) - len(lines[-1])
        behind.append(lines.pop())
        line = b"".join(reversed(behind))
        if line:
            yield offset, line, ended
        ended = True
        for line in reversed(lines[1:]):
            offset -= len(line) + 1
            if line:
                yield offset, line, True
        behind = [lines[0]]
    line = b"".join(reversed(behind))
    if line:
        yield 0, line, ended


def _assemble(found: list[Part], scan: _Scan) -> Loaded | None:
    """Events in the order of the log; None when a node is missing (it may share a line with another, or be lost), when
    the boundary has no anchor, or when the anchor does not hold."""
    if scan.need:
        return None
    rows = scan.rows[::-1]
    stand_in = MessageAppended(id="", role="", content=[])
    kept = carried([event or stand_in for _, _, event in rows], None, scan.path)
    # a message that was not decoded is on no path that is kept
    live = [row for row in cast(list[Row], [rows[i] for i in kept]) if not isinstance(row[2], SessionStarted)]
    if scan.boundary is not None:
        before = None if scan.anchor is None else _named(found, scan.anchor, scan.anchor_depth[scan.boundary.id])
        if before is None:
            return None
        live = _merged(live, scan.boundary, before)
    places: dict[str, Place] = {
        e.id: offset if depth == 0 else (depth, offset)
        for depth, offset, e in live
        if not isinstance(e, MessageAppended) and isinstance(e, PLACED)
    }
    start: list[Event] = [found[0].start] if found[0].start is not None else []
    return Loaded(
        start + [e for _, _, e in live], places, [], scan.at_start and not scan.skipped and scan.boundary is None, scan.steps
    )


def _merged(live: list[Row], boundary: CompactionBoundaryCreated, before: list[Row]) -> list[Row]:
    """Rows with those that the anchor names. Commits made before the boundary come from the anchor alone.

    They stand first and without their node, which is not loaded: a commit without one counts on
    every branch, as these do on every continuation of this boundary.
    """
    at = next(i for i, row in enumerate(live) if row[2] is boundary)
    commits = [(d, o, msgspec.structs.replace(e, leaf=None)) for d, o, e in before if isinstance(e, ProjectionCommitted)]
    named = {row[2].id for row in before}
    early = [row for row in live[:at] if not isinstance(row[2], ProjectionCommitted | ProjectionUndone)]
    early = [row for row in early if row[2].id not in named]
    early += [row for row in before if not isinstance(row[2], ProjectionCommitted)]
    return [*commits, *sorted(early, key=lambda row: (-row[0], row[1])), *live[at:]]


def _named(found: list[Part], anchor: Note, depth: int) -> list[Row] | None:
    """The rows that an anchor names, in the order of the log; None when one is not where it says."""
    out: list[Row] = []
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
