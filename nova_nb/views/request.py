"""What each step sees, as a table of pieces and runs of steps that only add to the same list.

Knows: how to find, with few projections, what every step was sent. Does not know rules of any
agent (it asks `session.projection`) nor colours and words of a page.

An *epoch* is a run of steps that append to one ordered list of pieces; a compaction, a
placeholder or a rewind starts another. Step `s` sees the first `n` pieces of its epoch. So the
whole history of all requests is linear in the session, a step slider needs no kernel, and a live
session appends. The last entry, one past the steps, is the next request.

Not every step is projected. Between two steps whose lists were projected and where the later one
begins with the earlier, the steps between are placed by where their answers stand in the log;
that is done only if this rule gives the right place for both ends, if no piece was replaced in
between, and if each answer between follows its request in the later one (so no branch was left).
Otherwise the run is parted and each part is looked at in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..foreign.base import Step
from ..history.events import (
    Block,
    BranchSelected,
    CompactionBoundaryCreated,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    Usage,
)
from ..projection.pieces import Piece, Projection, block_chars
from .history import Columns, History, category, text_of
from .text import head, visible

if TYPE_CHECKING:
    from ..session import Session

PIECE_COLUMNS = ("row", "block", "cat", "state", "chars", "reason", "head", "also")
"""source row (-1: none); block of that row that it shows whole (-1: it has words of its own, in `head`);
category; state of `nova_nb.projection.pieces.STATES`; characters; reason; first words; further source rows"""

RESTARTS = BranchSelected | CompactionBoundaryCreated | ProjectionCommitted | ProjectionUndone | PromptSet
STATE_CATEGORY = {
    "summary": "summary",
    "folded": "summary",
    "attachment": "attachment",
    "memory": "memory",
    "reminder": "reminder",
}
RELOOKED = frozenset({"placeholder", "folded", "repair"})
"""States of pieces that looked otherwise when they were new: their first steps cannot be told from a later one."""


@dataclass
class Epoch:
    """Pieces in the order of the request; `settled` of them belong to steps that were sent."""

    order: list[int] = field(default_factory=list)
    tops: list[int] = field(default_factory=list)
    """highest source row among the pieces up to each position"""
    settled: int = 0
    left: dict[str, tuple[str, str]] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True)
class StepView:
    """One request: the first `n` pieces of `epoch`. `row` is where its answer stands; `number` counts from 1."""

    number: int
    kind: str
    epoch: int
    n: int
    row: int
    prompt: int
    usage: Usage | None = None
    basis: str = ""
    model: str | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """System blocks and tools of a request, as far as the log holds them (None: it does not)."""

    system: tuple[tuple[str, int], ...] | None
    """(first words, characters) a block"""
    tools: tuple[tuple[str, int], ...] | None
    """(name, characters) a tool"""


class Requests:
    """Pieces, epochs and steps; `update` brings them up to the session, however far it has grown."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.columns: Columns = {name: [] for name in PIECE_COLUMNS}
        self.epochs: list[Epoch] = []
        self.steps: list[StepView] = []
        self.next: StepView | None = None
        self.prompts: list[Prompt] = []
        self._known: list[Step] = []
        self._variants: dict[str, list[int]] = {}
        self._prompt_keys: list[tuple[Any, Any]] = []
        self._tracks: dict[str, Epoch] = {}
        self.projected = 0
        """projections made so far: what this costs"""

    def update(self, session: Session, history: History) -> tuple[int, int]:
        """Place all new steps and the next request. Returns the first epoch and the first step (from 0) that may have changed."""
        known = len(self.steps)
        first = self._revise(session.steps[:known], history)
        before = len(self.epochs)
        changed = before - 1 if before else 0
        new = session.steps[known:]
        rows = [history.index.get(step.record or "", len(history.events)) for step in new]
        tracks: dict[str, list[int]] = {}
        for i, step in enumerate(new):
            tracks.setdefault(step.kind, []).append(i)
        found: list[StepView | None] = [None] * len(new)
        ends = _Ends(self, session, history, known)
        ends.fetch(tracks.values(), rows)
        for kind, members in tracks.items():
            if kind in self._tracks:
                changed = min(changed, self._tracks[kind].number)
            for i, (epoch, n, prompt, unknown) in ends.place(members, rows, kind).items():
                step = new[i]
                found[i] = StepView(
                    step.number, kind, epoch, n, rows[i], prompt, step.usage, step.basis, step.model, unknown
                )  # fmt: skip
        self.steps += [view for view in found if view is not None]
        self._known += new
        end = ends.project(None)
        epoch = self._attach("main", end.order, end.tops, end.projection.left, settled=False)
        self.next = StepView(
            len(self.steps) + 1, "next", epoch, len(end.order), len(history.events), end.prompt, None, "rebuilt", None,
            end.projection.unknown,
        )  # fmt: skip
        return max(0, min(changed, epoch)), first

    def _revise(self, steps: Sequence[Step], history: History) -> int:
        """Take in what became known of steps that are placed: an answer, its usage. Returns the first such step."""
        first = len(steps)
        for i in range(len(steps) - 1, -1, -1):
            if steps[i] != self._known[i]:
                first = i
                step = steps[i]
                row = history.index.get(step.record or "", len(history.events))
                self.steps[i] = replace(self.steps[i], row=row, usage=step.usage, basis=step.basis, model=step.model)
        self._known[first:] = steps[first:]
        return first

    def _attach(self, kind: str, order: list[int], tops: list[int], left: dict[str, Any], settled: bool = True) -> int:
        """The epoch that this list extends, or a new one. What only the next request showed may be replaced."""
        epoch = self._tracks.get(kind)
        if epoch is None or order[: epoch.settled] != epoch.order[: epoch.settled]:
            epoch = self._tracks[kind] = Epoch(number=len(self.epochs))
            self.epochs.append(epoch)
        epoch.order, epoch.tops, epoch.left = order, tops, left
        if settled:
            epoch.settled = len(order)
        return epoch.number

    def intern(self, piece: Piece, history: History) -> int:
        """The number of a piece; the same key with another look is another piece."""
        variants = self._variants.setdefault(piece.key, [])
        for i in variants:
            had = self.pieces[i]
            if had.state == piece.state and had.role == piece.role and (had.block is piece.block or had.block == piece.block):
                return i
        number = len(self.pieces)
        variants.append(number)
        self.pieces.append(piece)
        rows = [history.index[id] for id in piece.sources if id in history.index]
        block = -1
        if rows and piece.state == "whole":
            content: Sequence[Block] = getattr(history.events[rows[0]], "content", ())
            at = next((i for i, b in enumerate(content) if b is piece.block or b == piece.block), -1)
            block = history.rows["first"][rows[0]] + at if at >= 0 else -1
        cells = (
            rows[0] if rows else -1,
            block,
            STATE_CATEGORY.get(piece.state) or category(piece.block, piece.role),
            piece.state,
            piece.chars or block_chars(piece.block),
            visible(piece.reason),
            "" if block >= 0 else head(text_of(piece.block)),
            rows[1:],
        )
        for column, cell in zip(self.columns.values(), cells, strict=True):
            column.append(cell)
        return number

    def prompt(self, projection: Projection) -> int:
        """The number of a prompt, each different one kept once."""
        key = (projection.system, projection.tools)
        for i in range(len(self._prompt_keys) - 1, -1, -1):
            if self._prompt_keys[i] == key:
                return i
        system = tools = None
        if projection.system is not None:
            system = tuple((head(text_of(b)), block_chars(b)) for b in projection.system)
        if projection.tools is not None:
            tools = tuple((visible(str(t.get("name") or t.get("type") or "tool")), _tool_chars(t)) for t in projection.tools)
        self._prompt_keys.append(key)
        self.prompts.append(Prompt(system, tools))
        return len(self.prompts) - 1


def _tool_chars(tool: dict[str, Any]) -> int:
    return len(text_of({"type": "tool_use", "name": "", "input": tool})) - 1


@dataclass(frozen=True)
class _End:
    """A step that was really projected."""

    order: list[int]
    tops: list[int]
    projection: Projection
    prompt: int


class _Ends:
    """Places the steps of one kind with as few projections as prove the rest."""

    def __init__(self, requests: Requests, session: Session, history: History, known: int) -> None:
        self.requests, self.session, self.history, self.known = requests, session, history, known
        self.restarts = [i for i, event in enumerate(history.events) if isinstance(event, RESTARTS)]
        self.ready: dict[int | None, Projection] = {}

    def fetch(self, tracks: Iterable[list[int]], rows: list[int]) -> None:
        """Project in one pass what `place` will most likely ask: both ends of all runs between events that start an epoch."""
        asked: set[int] = set()
        for members in tracks:
            asked |= {members[0], members[-1]}
            for restart in self.restarts:
                after = bisect_left(members, restart, key=rows.__getitem__)
                asked |= set(members[max(0, after - 1) : after + 1])
        self.ready = dict(self.session.projections([*(i + self.known + 1 for i in sorted(asked)), None]))
        self.requests.projected += len(self.ready)

    def project(self, step: int | None) -> _End:
        projection = self.ready.pop(step, None)
        if projection is None:
            projection = self.session.projection(step)
            self.requests.projected += 1
        order = [self.requests.intern(piece, self.history) for piece in projection.pieces]
        row, also = self.requests.columns["row"], self.requests.columns["also"]
        tops: list[int] = []
        top = -1
        for i in order:
            top = max(top, row[i], *also[i])
            tops.append(top)
        return _End(order, tops, projection, self.requests.prompt(projection))

    def place(self, members: list[int], rows: list[int], kind: str) -> dict[int, tuple[int, int, int, tuple[str, ...]]]:
        """For each step of one kind: (epoch, pieces, prompt, what is unknown)."""
        out: dict[int, tuple[int, int, int, tuple[str, ...]]] = {}
        ends: dict[int, _End] = {}

        def end(at: int) -> _End:
            if at not in ends:
                ends[at] = self.project(members[at] + self.known + 1)
            return ends[at]

        def attach(at: int) -> None:
            e = end(at)
            epoch = self.requests._attach(kind, e.order, e.tops, e.projection.left)
            out[members[at]] = (epoch, len(e.order), e.prompt, e.projection.unknown)

        def settle(lo: int, hi: int) -> None:
            """Place the steps after `lo`, which is placed, up to `hi`."""
            if hi == lo:
                return
            a, b = end(lo), end(hi)
            row = [rows[members[i]] for i in range(lo, hi + 1)]
            if hi - lo > 1:
                if not self._appends(a, b, row):
                    middle = self._cut(row) + lo
                    settle(lo, middle)
                    settle(middle, hi)
                    return
                for i in range(lo + 1, hi):
                    n = bisect_left(b.tops, rows[members[i]])
                    out[members[i]] = (out[members[lo]][0], n, b.prompt, b.projection.unknown)
            attach(hi)

        attach(0)
        settle(0, len(members) - 1)
        return out

    def _appends(self, a: _End, b: _End, row: list[int]) -> bool:
        """Whether the steps between two ends can be placed by position alone."""
        if b.order[: len(a.order)] != a.order or a.prompt != b.prompt or any(x >= y for x, y in pairwise(row)):
            return False
        if bisect_left(b.tops, row[0]) != len(a.order) or bisect_left(b.tops, row[-1]) != len(b.order):
            return False
        pieces, source = self.requests.pieces, self.requests.columns["row"]
        added = b.order[len(a.order) :]
        if any(pieces[i].state in RELOOKED for i in added):
            return False
        results = {pieces[i].block.get("tool_use_id") for i in b.order}
        if any(pieces[i].block.get("type") == "tool_use" and pieces[i].block.get("id") not in results for i in added):
            return False  # a call without a result may have been given one for a while
        count = self.history.rows["count"]
        if any(n > max(1, count[r]) for r, n in Counter(source[i] for i in added).items() if r >= 0):
            return False  # a row is in it twice: it came back later than it stands
        for r in row[1:-1]:  # each answer follows its request
            n = bisect_left(b.tops, r)
            if n == len(b.order) or source[b.order[n]] != r or pieces[b.order[n]].role != "assistant":
                return False
        return True

    def _cut(self, row: list[int]) -> int:
        """Where to part a run: at the last step before the middle one of the events that start an epoch, else in the middle."""
        restarts = [r for r in self.restarts if row[0] < r < row[-1]]
        if restarts:
            after = next(i for i, r in enumerate(row) if r > restarts[len(restarts) // 2])
            return after - 1 if after > 1 else 1
        return len(row) // 2
