"""Four sets of a session's records, and why a record is in one and not in the next.

Knows: what every format can say (`foreign.base.Format`): the records on disk, those reachable from
the leaf, those in a request, those shown on the agent's screen. Does not know any agent's rules,
and judges nothing: a difference is a fact here, whether it is a fault is for the checks.

Records are conversation records (user and assistant rows, results included), each once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..foreign.base import Leaf
from ..history.events import Block, CompactionBoundaryCreated, Event, ForeignRow, MessageAppended
from ..history.log import Log, record_id
from .report import one_line

if TYPE_CHECKING:
    from ..session import Session


class Reason(msgspec.Struct, frozen=True):
    """One link of the chain that keeps a record out of a request."""

    layer: str
    """ "branch" | "boundary" | "pairing" | "projection" | … (the layers of a diagnosis)"""
    message: str
    record: str | None = None
    """the record that did it, to open and look at"""
    line: int | None = None
    certainty: str = "recorded"
    """ "recorded" (the log says so) | "inferred" """


class Sets(msgspec.Struct, frozen=True):
    """Ids of records, in file order. `shown` is None where the screen's rule is not known.

    >>> four_sets(session).sentence        # doctest: +SKIP
    '62 records on disk, 40 reachable, 9 in the next request, 62 shown.'
    """

    on_disk: tuple[str, ...]
    reachable: tuple[str, ...]
    in_request: tuple[str, ...]
    shown: tuple[str, ...] | None
    left_out: dict[str, tuple[Reason, ...]]
    """record → the chain of reasons why it is not in the request, nearest cause first"""
    leaf: Leaf
    step: int | None = None

    @property
    def counts(self) -> dict[str, int | None]:
        """Sizes of the four sets; None where one depends on a rule that is not known."""
        shown = None if self.shown is None else len(self.shown)
        return {
            "on_disk": len(self.on_disk),
            "reachable": len(self.reachable),
            "in_request": len(self.in_request),
            "shown": shown,
        }

    @property
    def sentence(self) -> str:
        """The four sets in one sentence."""
        request = "the next request" if self.step is None else f"the request of step {self.step}"
        shown = "an unknown number" if self.shown is None else str(len(self.shown))
        return (
            f"{len(self.on_disk)} records on disk, {len(self.reachable)} reachable, "
            f"{len(self.in_request)} in {request}, {shown} shown."
        )


def four_sets(session: Session, step: int | None = None) -> Sets:
    """The four sets of a session for a step's request, or for the next one."""
    log, format = session.log, session.format
    on_disk = format.conversation(log)
    reachable = set(format.reachable(log, session.leaf.record))
    projection = session.projection(step)
    sources = {source for piece in projection.pieces for source in piece.sources}
    shown = format.shown(log)
    inside = set(on_disk)
    left_out: dict[str, tuple[Reason, ...]] = {}
    sent_at = None if step is None else log.index.get(session.steps[step - 1].record or "")
    why = _Unreachable(log, reachable)
    boundaries = _boundaries(log)
    for id in on_disk:
        if id not in sources:
            given = projection.left.get(id)
            if sent_at is not None and log.index[id] >= sent_at:
                left_out[id] = (Reason("log", "written after this request", record_id(id), log.line(id)),)
            elif given is not None:
                left_out[id] = (Reason(given[0], given[1], record_id(id), log.line(id)),)
            elif id in reachable:
                left_out[id] = behind(log, id, sent_at, boundaries)
            else:
                left_out[id] = why.reasons(id)
    _follow_results(log, left_out)
    return Sets(
        on_disk=tuple(on_disk),
        reachable=tuple(id for id in on_disk if id in reachable),
        in_request=tuple(id for id in on_disk if id in sources),
        shown=None if shown is None else tuple(id for id in shown if id in inside),
        left_out=left_out,
        leaf=session.leaf,
        step=step,
    )


def _follow_results(log: Log, left_out: dict[str, tuple[Reason, ...]]) -> None:
    """A call that is left out for want of a result gets the reason of that result behind its own."""
    results: dict[str, str] = {}
    for id in left_out:
        for block in _blocks(log, id):
            if block.get("type") == "tool_result":
                results.setdefault(str(block.get("tool_use_id")), id)
    for id, reasons in left_out.items():
        if reasons[0].layer == "pairing":
            answers = (results.get(str(block.get("id"))) for block in _blocks(log, id) if block.get("type") == "tool_use")
            cause = next((left_out[answer] for answer in answers if answer is not None and answer != id), ())
            left_out[id] = (*reasons, *(reason for reason in cause if reason.layer != "pairing"))


def _blocks(log: Log, id: str) -> list[Block]:
    event = log.get(id)
    return event.content if isinstance(event, MessageAppended) else []


def _boundaries(log: Log) -> list[int]:
    return [i for i, event in enumerate(log.events) if isinstance(event, CompactionBoundaryCreated)]


def behind(log: Log, id: str, before: int | None = None, boundaries: Sequence[int] | None = None) -> tuple[Reason, ...]:
    """Reasons for a record that is on the branch: each compaction after it and before position `before`, the first one first."""
    reasons: list[Reason] = []
    boundaries = _boundaries(log) if boundaries is None else boundaries
    end = len(log.events) if before is None else before
    for i in boundaries[bisect_right(boundaries, log.index[id]) : bisect_left(boundaries, end)]:
        what = "behind the compaction" if not reasons else "and its summary is behind the compaction"
        reasons.append(Reason("boundary", f"{what} at line {log.lines[i]}", record_id(log.events[i].id), log.lines[i]))
    return tuple(reasons) or (
        Reason("projection", "the agent's rules do not send it", record_id(id), log.line(id), "inferred"),
    )


class _Unreachable:
    """Where the chain of a record that is off the active branch leaves it; each parent is walked once."""

    def __init__(self, log: Log, reachable: set[str]) -> None:
        self.log = log
        self.reachable = reachable
        self.known: dict[str, tuple[Reason, ...]] = {}
        self.start = self._start()

    def _start(self) -> tuple[Reason, ...]:
        """Where the active branch itself begins, when that is not where it should: the reason why islands are islands."""
        for i, event in enumerate(self.log.events):
            if event.id in self.reachable:
                line, up = self.log.lines[i], _parent(event)
                if up is not None and self.log.get(up) is None:
                    return (
                        Reason(
                            "branch",
                            f"the active branch begins at line {line}, whose parent {one_line(up, 80)} is in no record",
                            record_id(event.id),
                            line,
                        ),
                    )
                return (Reason("branch", f"the active branch begins at line {line}", record_id(event.id), line),)
        return ()

    def reasons(self, id: str) -> tuple[Reason, ...]:
        path: list[str] = []
        at: str | None = id
        seen: set[str] = set()
        found: tuple[Reason, ...] | None = None
        while found is None:
            assert at is not None
            path.append(at)
            seen.add(at)
            event = self.log.get(at)
            up = _parent(event)
            line = self.log.line(at)
            if isinstance(event, MessageAppended) and event.meta.get("sidechain"):
                found = (Reason("branch", "a subagent's own conversation", record_id(at), line),)
            elif up is None or self.log.get(up) is None:
                end = "begins" if up is None else f"breaks (the parent {one_line(up, 80)} is in no record)"
                found = (
                    Reason("branch", f"its chain {end} at line {line}, apart from the active branch", record_id(at), line),
                    *self.start,
                )
            elif up in self.reachable:
                found = (
                    Reason(
                        "branch",
                        f"on a branch that leaves the active one after line {self.log.line(up)}",
                        up,
                        self.log.line(up),
                    ),
                )
            elif up in self.known:
                found = self.known[up]
            elif up in seen:
                found = (Reason("branch", f"its parents go round in a circle, through line {line}", record_id(at), line),)
            at = up
        for each in path:
            self.known[each] = found
        return found


def _parent(event: Event | None) -> str | None:
    if isinstance(event, CompactionBoundaryCreated):
        return event.logical_parent
    return event.parent if isinstance(event, MessageAppended | ForeignRow) else None
