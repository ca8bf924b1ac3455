"""Which rows of a transcript belong to a branch, in the order in which they are sent, and where a resume goes on.

Knows: parents, boundaries, kept tails, the leaf, and how parallel calls hang in the chain. Does not know
how a row is worded in a request (`wire`). Rows are named by their position in the file; a
`limit` says how much of the file existed when a request was made.

The rules, for versions 1.0 to 2.1.332 (each checked against captured requests where a version
has them, see docs/formats/claude-code.md):

* a uuid that is met again does not count: its first row stands for it;
* the walk goes from the leaf by `parentUuid` to a row without one, through rows of every type;
* a boundary has no parent, so it ends the walk; what it kept word for word comes after its anchor;
* one answer is split over several rows and parallel results hang off their own call, so the walk
  alone loses all but the last call: rows of one `message.id`, and the results of its calls, are
  brought back in file order. Clients before 2.1 did this only for rows that their own process had
  written; after a resume they sent the bare walk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...history.events import CompactionBoundaryCreated, Event
from ..base import Leaf
from .schema import Row


@dataclass(frozen=True)
class Boundary:
    """A compaction in the file: what it kept, and where that goes."""

    at: int
    kept: tuple[int, ...]
    """positions of the rows that stay word for word, in the order in which they are sent"""
    anchor: int | None
    """position of the row they follow: the summary, or the boundary itself when the tail was summarised"""
    missing: tuple[str, ...] = ()
    """ids it names that are in no row"""


class Transcript:
    """The rows of one file with the indexes that the rules need, each made when it is first asked for."""

    def __init__(self, path: Path, rows: list[Row], events: list[Event], lines: list[int]) -> None:
        self.path = path
        self.rows = rows
        self.events = events
        self.lines = lines
        self.story: Any = None
        """what lies beside the file (`steps.Story`), once it was asked for"""

    def id(self, i: int) -> str:
        """Id of the event of a row."""
        return self.events[i].id

    @cached_property
    def first(self) -> dict[str, int]:
        """Position of the row that stands for each uuid: the first one."""
        first: dict[str, int] = {}
        for i, row in enumerate(self.rows):
            if row.uuid is not None:
                first.setdefault(row.uuid, i)
        return first

    @cached_property
    def spoken(self) -> list[int]:
        """Positions of conversation records, repeated uuids left out."""
        first = self.first
        return [i for i, row in enumerate(self.rows) if row.speaks and first[row.uuid or ""] == i]

    @cached_property
    def side(self) -> bool:
        """Whether this is a subagent's own file: all that speaks in it is on a side chain."""
        return bool(self.spoken) and all(self.rows[i].sidechain for i in self.spoken)

    def own(self, i: int) -> bool:
        """Whether a row is on the file's main conversation, not on a side chain inside it."""
        return self.side or not self.rows[i].sidechain

    def up(self, i: int) -> int | None:
        """Position of a row's parent; None at a root or where the parent is in no row."""
        return self.ups[i]

    @cached_property
    def ups(self) -> list[int | None]:
        """Position of each row's parent."""
        first = self.first
        return [None if row.parent is None else first.get(row.parent) for row in self.rows]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Rows of each answer (`message.id`, or a row's own id without one), in file order. Repeated uuids are left out."""
        groups: dict[str, list[int]] = defaultdict(list)
        for i in self.spoken:
            if self.rows[i].type == "assistant":
                groups[_answer(self.rows[i])].append(i)
        return dict(groups)

    def group(self, i: int) -> list[int]:
        """The rows of the same answer as row i."""
        return self.groups.get(_answer(self.rows[i]), [i])

    @cached_property
    def answered(self) -> dict[int, int]:
        """Position of the row whose call it answers, by the position of a result row."""
        found: dict[int, int] = {}
        for i in self.spoken:
            row = self.rows[i]
            if row.type == "user" and is_result(row):
                for parent in (row.source_row, row.parent):
                    at = None if parent is None else self.first.get(parent)
                    if at is not None and self.rows[at].type == "assistant":
                        found[i] = at
                        break
        return found

    @cached_property
    def results(self) -> dict[int, list[int]]:
        """Result rows by the position of the row whose call they answer, in file order."""
        found: dict[int, list[int]] = defaultdict(list)
        for i, call in self.answered.items():
            found[call].append(i)
        return dict(found)

    @cached_property
    def boundaries(self) -> list[Boundary]:
        """Compactions of the file's own conversation, in file order."""
        return [
            self._boundary(i) for i, e in enumerate(self.events) if isinstance(e, CompactionBoundaryCreated) and self.own(i)
        ]

    def _boundary(self, i: int) -> Boundary:
        about = self.events[i].meta.get("compactMetadata")  # type: ignore[attr-defined]
        about = about if isinstance(about, dict) else {}
        listed, segment = about.get("preservedMessages"), about.get("preservedSegment")
        if isinstance(listed, dict) and isinstance(listed.get("uuids"), list):
            ids = [id for id in listed["uuids"] if isinstance(id, str)]
            kept = tuple(self.first[id] for id in ids if id in self.first)
            missing = tuple(id for id in ids if id not in self.first)
            return Boundary(i, kept, self._position(listed.get("anchorUuid")), missing)
        if isinstance(segment, dict):
            head, tail = self._position(segment.get("headUuid")), self._position(segment.get("tailUuid"))
            names = tuple(str(segment.get(key)) for key, at in (("headUuid", head), ("tailUuid", tail)) if at is None)
            kept = self._segment(head, tail) if head is not None and tail is not None else ()
            return Boundary(i, kept, self._position(segment.get("anchorUuid")), names)
        return Boundary(i, (), None)

    def _position(self, id: Any) -> int | None:
        return self.first.get(id) if isinstance(id, str) else None

    def _segment(self, head: int, tail: int) -> tuple[int, ...]:
        """Rows from head to tail by parents; () when the tail does not descend from the head."""
        path: list[int] = []
        seen: set[int] = set()
        at: int | None = tail
        while at is not None and at not in seen:
            seen.add(at)
            path.append(at)
            if at == head:
                return tuple(self.with_siblings(path[::-1], tail + 1))
            at = self.up(at)
        return ()

    # -- where the next step continues from -----------------------------------------------------------

    @cached_property
    def end(self) -> int | None:
        """Position of the record that a resume continues from: the last of the file's own that is no error of the API."""
        own = self._own
        return next((i for i in reversed(own) if not self.rows[i].api_error), own[-1] if own else None)

    @cached_property
    def leaf(self) -> Leaf:
        """The record at `end`, and what other rules would have chosen where that differs."""
        if self.end is None:
            return Leaf(None, None, "last-in-file")
        own = self._own
        latest = max(own, key=lambda i: (self.rows[i].at or "", i))
        named: dict[int, str] = {}
        for i, policy in ((own[-1], "last-row"), (latest, "newest-timestamp"), (self._deepest(), "longest-chain")):
            if i != self.end:
                named.setdefault(i, policy)
        others = tuple(Leaf(self.id(i), self.lines[i], policy) for i, policy in named.items())
        return Leaf(self.id(self.end), self.lines[self.end], "last-in-file", others)

    @cached_property
    def active(self) -> list[int]:
        """Everything that the next step descends from (`to_root`)."""
        return [] if self.end is None else self.to_root(self.end)

    @cached_property
    def _own(self) -> list[int]:
        return self.spoken if self.side else [i for i in self.spoken if not self.rows[i].sidechain]

    def _deepest(self) -> int:
        """The record with the most conversation records on its bare chain; the last of several."""
        ups, depth = self.ups, dict[int, int]()
        for i in self._own:
            path: list[int] = []
            at: int | None = i
            onpath: set[int] = set()
            while at is not None and at not in depth and at not in onpath:
                onpath.add(at)
                path.append(at)
                at = ups[at]
            base = depth.get(at, 0) if at is not None else 0
            for k in reversed(path):
                base += self.rows[k].speaks
                depth[k] = base
        return max(self._own, key=lambda i: (depth[i], i))

    # -- branches -------------------------------------------------------------------------------------

    def walk(self, leaf: int, limit: int | None = None) -> list[int]:
        """The bare chain from a leaf, oldest first, kept rows put behind their anchor; no siblings yet."""
        limit = len(self.rows) if limit is None else limit
        active = [b for b in self.boundaries if b.at < limit and b.anchor is not None and b.kept]
        kept_by = {i: b for b in active for i in b.kept}
        anchored = {b.anchor: b for b in active}
        path: list[int] = []
        seen: set[int] = set()
        at: int | None = leaf
        while at is not None and at not in seen:
            boundary = kept_by.get(at)
            if boundary is not None and boundary.anchor not in seen and leaf > boundary.at:
                at = boundary.anchor
                continue
            seen.add(at)
            path.append(at)
            at = self.up(at)
        path.reverse()
        out: list[int] = []
        for i in path:
            out.append(i)
            if i in anchored and leaf > anchored[i].at:
                out.extend(k for k in anchored[i].kept if k not in seen)
        return out

    def with_siblings(self, path: Iterable[int], limit: int, since: int = 0) -> list[int]:
        """The chain with the rows of each answer and the results of its calls brought back, those before `since` excepted."""
        path = list(path)
        inside = set(path)
        placed: set[int] = set()
        out: list[int] = []
        for i in path:
            if i in placed:
                continue
            row = self.rows[i]
            if row.type == "assistant" and row.speaks:
                members = [k for k in self.group(i) if k in inside or since <= k < limit]
            elif i in self.answered:
                calls = self.group(self.answered[i])
                members = sorted(k for call in calls for k in self.results.get(call, ()) if k in inside or since <= k < limit)
            else:
                members = [i]
            for k in members or [i]:
                if k not in placed:
                    placed.add(k)
                    out.append(k)
        return out

    def to_root(self, leaf: int) -> list[int]:
        """Everything the leaf descends from, boundaries crossed, parallel rows brought back, in file order.

        A boundary whose `logicalParentUuid` is in no row is crossed by the last row it kept, else by the
        nearest conversation record before it.
        """
        crossing = {b.at: self.before(b) for b in self.boundaries}
        anchors = {b.kept[0]: b.anchor for b in self.boundaries if b.kept and b.at < leaf}
        ups = self.ups
        seen: set[int] = set()
        todo: list[int | None] = [leaf]
        while todo:
            at = todo.pop()
            while at is not None and at not in seen:
                seen.add(at)
                if at in crossing or at in anchors:
                    todo += [crossing.get(at), anchors.get(at)]
                at = ups[at]
        return self.with_siblings(sorted(seen), len(self.rows))

    def before(self, boundary: Boundary) -> int | None:
        """Position of the row that a compaction was made on; see `to_root` for a link that leads nowhere."""
        logical = self.rows[boundary.at].logical
        if logical is not None and logical in self.first:
            return self.first[logical]
        if boundary.kept:
            return boundary.kept[-1]
        return next((i for i in reversed(self.spoken) if i < boundary.at and self.own(i)), None)


def _answer(row: Row) -> str:
    return (row.message.id if row.message is not None else None) or row.uuid or ""


def is_result(row: Row) -> bool:
    """Whether a user row holds results of calls."""
    content = row.message.content if row.message is not None else None
    return isinstance(content, list) and any(isinstance(b, dict) and b.get("type") == "tool_result" for b in content)
