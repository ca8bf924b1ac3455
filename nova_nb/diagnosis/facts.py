"""What all checks look at: the session read once, with its sets, its branch, its calls and its usage.

Knows: how to gather. Does not judge. Rows are named by their position in `log.events`; `lines` and
`ids` turn positions into what a person can open.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..foreign.claude_code.chain import Transcript
from ..history.events import CompactionBoundaryCreated, Event, ForeignRow, MessageAppended
from ..history.log import Log, record_id
from .report import Counts, Finding, LeafChoice, LeafReport
from .witness import Answer, Witness, fit, row_chars, seconds

if TYPE_CHECKING:
    from ..session import Session


T = TypeVar("T")
E = TypeVar("E", bound=Event)

LINKS = (MessageAppended, ForeignRow)
"""Rows that name a parent."""


def once(found: Callable[[Facts], Iterable[T]]) -> Callable[[Facts], tuple[T, ...]]:
    """What several checks ask of the same facts, worked out once and kept with them."""

    def kept(facts: Facts) -> tuple[T, ...]:
        known: dict[object, tuple[T, ...]] = facts.__dict__.setdefault("_once", {})
        if found not in known:
            known[found] = tuple(found(facts))
        return known[found]

    return kept


@dataclass(frozen=True)
class Fork:
    """A row with a child that the active branch took and others that it did not."""

    at: int | None
    """position of the common parent; None for several roots"""
    taken: int
    """first row of the active side"""
    others: tuple[int, ...]
    """first rows of the other sides that hold conversation, without those that pairing brought back"""


@dataclass(frozen=True, eq=False)
class Facts:
    """A session as the checks see it; each part is worked out once, when it is first asked for."""

    session: Session
    leaf: LeafReport
    counts: Counts
    conversation: tuple[int, ...]
    """positions of conversation records, in file order"""
    path: tuple[int, ...]
    """positions of reachable conversation records, in the order of the branch"""
    in_request: frozenset[int]

    @cached_property
    def log(self) -> Log:
        return self.session.log

    @cached_property
    def events(self) -> list[Event]:
        return self.session.log.events

    @cached_property
    def reachable(self) -> frozenset[int]:
        return frozenset(self.path)

    @cached_property
    def order(self) -> dict[int, int]:
        """Place of each reachable record on the branch."""
        return {i: n for n, i in enumerate(self.path)}

    @cached_property
    def transcript(self) -> Transcript | None:
        """The rows of a Claude Code file; None for other agents."""
        native = self.log.native
        return native if isinstance(native, Transcript) else None

    # -- rows --------------------------------------------------------------------------------------

    def on_line(self, line: int) -> range:
        """Positions of the rows of a physical line."""
        return range(bisect_left(self.log.lines, line), bisect_right(self.log.lines, line))

    def spoken_between(self, after: int, before: int) -> tuple[int, ...]:
        """Conversation records strictly between two positions of the file."""
        return self.conversation[bisect_right(self.conversation, after) : bisect_left(self.conversation, before)]

    def ids(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(record_id(self.events[i].id) for i in positions)

    def lines(self, positions: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.log.lines[i] for i in positions))

    def finding(self, code: str, layer: str, role: str, positions: Sequence[int], message: str, **more: Any) -> Finding:
        """A finding about rows; certainty defaults to "recorded"."""
        more.setdefault("certainty", "recorded")
        return Finding(
            code=code, layer=layer, role=role, records=self.ids(positions), lines=self.lines(positions), message=message, **more
        )

    @cached_property
    def messages(self) -> list[MessageAppended | None]:
        """The event of each row where it is a message."""
        return [event if isinstance(event, MessageAppended) else None for event in self.events]

    def of(self, kind: type[E]) -> list[tuple[int, E]]:
        """The events of one type with their positions, in file order."""
        return self._by_type.get(kind, [])

    @cached_property
    def _by_type(self) -> dict[type[Event], list[tuple[int, Any]]]:
        found: dict[type[Event], list[tuple[int, Any]]] = defaultdict(list)
        for i, event in enumerate(self.events):
            found[type(event)].append((i, event))
        return dict(found)

    def message(self, i: int) -> MessageAppended | None:
        return self.messages[i]

    def parent(self, i: int) -> str | None:
        return getattr(self.events[i], "parent", None)

    def side(self, i: int) -> bool:
        """Whether a row belongs to a subagent's chain inside this file."""
        return self._sides[i]

    @cached_property
    def _sides(self) -> list[bool]:
        if self.transcript is not None:
            return [not self.transcript.own(i) for i in range(len(self.events))]
        return [event is not None and bool(event.meta.get("sidechain")) for event in self.messages]

    def person(self, i: int) -> bool:
        """Whether a row is a turn of the person."""
        event = self.message(i)
        return event is not None and event.role == "user" and event.origin == "person"

    def seconds(self, i: int) -> float | None:
        """Time of a row in seconds since the epoch; None where it has none that can be read."""
        return seconds(self.events[i].at)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of the first row of each id, as it stands in the file."""
        first: dict[str, int] = {}
        for i, event in enumerate(self.events):
            first.setdefault(record_id(event.id), i)
        return first

    @cached_property
    def chars(self) -> list[int]:
        """Characters each row puts into a request."""
        return [row_chars(event) for event in self.events]

    @cached_property
    def children(self) -> dict[int | None, list[int]]:
        """Positions of child rows by the position of their parent; None for roots. Side chains are left out."""
        children: dict[int | None, list[int]] = defaultdict(list)
        sides, position = self._sides, self.position
        for i, event in enumerate(self.events):
            if isinstance(event, LINKS) and not sides[i] and record_id(event.id) == event.id:
                if isinstance(event, ForeignRow) and event.parent is None:
                    continue
                children[None if event.parent is None else position.get(event.parent, -1)].append(i)
        return dict(children)

    @cached_property
    def forks(self) -> list[Fork]:
        """Places where conversation was left behind, in file order."""
        forks = []
        on = self.links
        for at, rows in self.children.items():
            taken = [i for i in rows if i in on]
            if at == -1 or not taken:
                continue
            others = tuple(i for i in rows if i not in on and self.speaks_below(i))
            if others:
                forks.append(Fork(at, taken[0], others))
        return sorted(forks, key=lambda fork: fork.taken)

    @cached_property
    def links(self) -> frozenset[int]:
        """Rows of every type on the active branch: conversation, and what it hangs from."""
        links = set(self.path)
        for i in self.path:
            at = self.position.get(self.parent(i) or "")
            while at is not None and at not in links and not isinstance(self.events[at], MessageAppended):
                links.add(at)
                at = self.position.get(self.parent(at) or "")
        return frozenset(links)

    def speaks_below(self, i: int) -> bool:
        """Whether a row or a row below it is an unreachable conversation record."""
        return any(isinstance(self.events[k], MessageAppended) and k not in self.reachable for k in self.below(i))

    def below(self, i: int) -> list[int]:
        """A row and all that hangs below it, in file order."""
        found, stack = set(), [i]
        while stack:
            at = stack.pop()
            if at not in found:
                found.add(at)
                stack += self.children.get(at, [])
        return sorted(found)

    @cached_property
    def boundaries(self) -> list[int]:
        """Positions of the compaction boundaries of the main conversation."""
        return [i for i, _ in self.of(CompactionBoundaryCreated) if not self.side(i)]

    def summary_of(self, boundary: int) -> int | None:
        """Position of the summary row that hangs from a boundary."""
        id = record_id(self.events[boundary].id)
        for i in range(boundary + 1, min(boundary + 40, len(self.events))):
            event = self.message(i)
            if event is not None and event.parent == id and event.meta.get("summary"):
                return i
        return None

    # -- calls and usage ---------------------------------------------------------------------------

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Answered main calls on the active branch with recorded usage, in its order."""
        order = self.order
        sums = [0]
        for i in self.path:
            sums.append(sums[-1] + self.chars[i])
        attached = [i for i, _ in self.of(ForeignRow) if self.chars[i] and not self.side(i)]
        beside = list(itertools.accumulate((self.chars[i] for i in attached), initial=0))
        turns = [k for k, i in enumerate(self.path) if self.person(i)]
        starts: dict[int, int] = {}
        out = []
        for step in self.session.steps:
            first = self.log.index.get(step.record or "")
            if step.kind != "main" or step.usage is None or not step.usage.context or first is None or first not in order:
                continue
            event = self.message(first)
            group = event.group if event is not None else None
            rows = tuple(i for i in self._rows_of(group) if i in order) if group else (first,)
            epoch = bisect_left(self.boundaries, first)
            since = self.boundaries[epoch - 1] if epoch else -1
            n = order[first]
            if since not in starts:
                starts[since] = next((k for k, i in enumerate(self.path) if i > since), n)
            start = min(starts[since], n)
            asked = bisect_left(turns, n) - 1
            spoke = max(turns[asked], start) if asked >= 0 else start
            extra = beside[bisect_left(attached, first)] - beside[bisect_right(attached, since)]
            kept = getattr(self.events[since], "kept", []) if since >= 0 else []
            extra += sum(self.chars[self.position[k]] for k in kept if k in self.position)
            at = self.seconds(first)
            out.append(Answer(step, rows, at, step.usage, epoch, sums[n] - sums[start] + extra, sums[n] - sums[spoke]))
        return tuple(out)

    def _rows_of(self, group: str) -> list[int]:
        return self._groups.get(group, [])

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = defaultdict(list)
        for i in self.conversation:
            event = self.message(i)
            if event is not None and event.group:
                groups[event.group].append(i)
        return dict(groups)

    @property
    def groups(self) -> dict[str, list[int]]:
        """Positions of the rows of each answer, by the provider's id."""
        return self._groups

    @cached_property
    def witness(self) -> Witness | None:
        """The fit of usage to characters; None with fewer than three calls to fit it on."""
        return fit(self.answers)

    @property
    def last(self) -> int | None:
        """The step of the latest main call; None where the log holds no call."""
        return next((step.number for step in reversed(self.session.steps) if step.kind == "main"), None)

    def neighbours(self) -> Iterable[tuple[Answer, Answer]]:
        """Consecutive answers with no boundary between them."""
        for before, now in zip(self.answers, self.answers[1:], strict=False):
            if before.epoch == now.epoch:
                yield before, now


def gather(session: Session) -> Facts:
    """Read what the checks need. One pass over the log for each set."""
    log, format = session.log, session.format
    leaf = session.leaf
    conversation = [log.index[id] for id in format.conversation(log)]
    reachable = [log.index[id] for id in format.reachable(log) if id in log.index]
    known = set(conversation)
    carried = {log.index[id] for piece in session.projection().pieces for id in piece.sources if id in log.index} & known
    shown = format.shown(log)
    choices = tuple(
        LeafChoice(record=None if a.record is None else record_id(a.record), line=a.line, policy=a.policy)
        for a in leaf.alternatives
    )
    return Facts(
        session=session,
        leaf=LeafReport(
            record=None if leaf.record is None else record_id(leaf.record),
            line=leaf.line,
            policy=leaf.policy,
            alternatives=choices,
        ),
        counts=Counts(
            on_disk=len(conversation),
            reachable=len(reachable),
            in_request=len(carried),
            shown=None if shown is None else len(shown),
        ),
        conversation=tuple(conversation),
        path=tuple(reachable),
        in_request=frozenset(carried),
    )
