"""The model calls that a session's files show, and the rows that each request was made of.

Knows: what proves a call (an answer, a request row, a boundary), in which process it was made,
and how its rows are picked. Does not know how rows are worded (`wire`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from ...history.events import CompactionBoundaryCreated, Event, ForeignRow, MessageAppended, Usage
from ...history.log import Log
from ..base import Step
from .agents import Agent, agents_of, resumes
from .chain import Boundary, Transcript
from .recorded import Recorded, Sent, recorded
from .unwritten import LIVE, State, sentences, states

SUMMARISE = "the instruction to summarise that ended this request, and how many of the newest messages it held, are in no file"
UNWRITTEN = "the prompt of this request and its answer were written to no file; that it was sent is inferred from the queue"

NEWEST = "2.1.332"
"""The newest version whose captured requests the rules were checked on."""

PASSED = ("projection", "a resumed session is walked by parents alone in this version, which passes parallel calls by")


@dataclass(frozen=True)
class Call:
    """One model call: its entry, and where its request comes from."""

    step: Step
    story: Story
    leaf: int | None
    """position of the last row in the request"""
    limit: int
    """how many rows the file had when it was sent"""
    sent: Sent | None = None
    unknown: tuple[str, ...] = ()
    extra: tuple[Event, ...] = ()
    """rows of a compaction's own file that its request had besides the transcript's"""


class Story:
    """A transcript read with what lies beside it: its calls in order, its processes."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.transcript: Transcript = log.native

    @cached_property
    def agents(self) -> list[Agent]:
        return agents_of(self.transcript.path, self.log.source.session_id)

    @cached_property
    def recorded(self) -> Recorded:
        return recorded(self.log.events)

    @cached_property
    def starts(self) -> list[int]:
        """Positions of the first row that each resuming process wrote, where that is known (2.0)."""
        t = self.transcript
        times = [t.rows[i].at or "" for i in t.spoken]
        return [
            t.spoken[n] for at in resumes(self.agents, self.log.source.session_id) if (n := bisect_left(times, at)) < len(times)
        ]

    def since(self, limit: int) -> int:
        """The first row whose siblings a request had that was made when the file had `limit` rows.

        Before 2.1 a resuming process sent the bare walk of what earlier processes had written. `limit` at the end
        of the file stands for the request of a process that resumes it now.
        """
        t = self.transcript
        version = t.rows[limit].version if limit < len(t.rows) else None
        if _version(version or self.log.source.agent_version) >= (2, 1):
            return 0
        return max((start for start in self.starts if start <= limit), default=0) if limit < len(t.rows) else limit

    @cached_property
    def calls(self) -> list[Call]:
        """Every model call, in the order of the calls, numbered from 1."""
        kind = "subagent" if self.transcript.side else "main"
        found = [*self._answered(kind), *self._unanswered(kind), *self._unwritten(kind), *self._compactions()]
        found.sort(key=lambda call: call.limit)
        mine = found
        others = [call for agent in self.agents if agent.kind != "compact" for call in _of_agent(agent)]
        ordered = _merged(mine, others)
        return [replace_step(call, number=n) for n, call in enumerate(ordered, 1)]

    def _answered(self, kind: str) -> Iterable[Call]:
        t = self.transcript
        for members in t.groups.values():
            i = members[0]
            event = t.events[i]
            if not isinstance(event, MessageAppended) or event.meta.get("synthetic"):
                continue
            sent = self.recorded.sent.get(event.meta.get("request", ""))
            step = Step(
                number=0,
                kind=kind if t.own(i) else "subagent",
                usage=_usage(t, members),
                basis="recorded" if sent is not None and sent.whole else "rebuilt",
                record=event.id,
                line=t.lines[i],
                at=event.at,
                model=event.model,
            )
            yield self._call(step, t.up(i), i, sent)

    def _call(self, step: Step, leaf: int | None, limit: int, sent: Sent | None) -> Call:
        """A call whose request ends in row `leaf`; partial where that is known to lack something."""
        missing = self.missing(leaf) if step.basis == "rebuilt" else ()
        return Call(replace(step, basis="partial") if missing else step, self, leaf, limit, sent, missing)

    def missing(self, leaf: int | None, resumed: bool = False) -> tuple[str, ...]:
        """What a request that ends in row `leaf` held and no file holds, or by rules that may not be its version's."""
        return (*self.guessed, *(() if leaf is None else sentences(self._states[leaf].missing & ~(LIVE if resumed else 0))))

    @cached_property
    def guessed(self) -> tuple[str, ...]:
        """One sentence where the rules were not checked on what this file is."""
        version = self.log.source.agent_version
        if not version:
            return (f"no row names a version, so the rules of {NEWEST} were used",) if self.transcript.spoken else ()
        if _version(version) > _version(NEWEST):
            return (f"the rules of {version} are not known; those of {NEWEST} were used",)
        if not self.recorded.sent and any(_as_system(event) for event in self.log.events):
            return ("whether reminders were messages of role system or stood in user messages depends on the model",)
        return ()

    @cached_property
    def _states(self) -> list[State]:
        return states(self.transcript, self.starts)

    def _unanswered(self, kind: str) -> Iterable[Call]:
        """Request rows that no answer names: the process was killed, or the provider refused."""
        t = self.transcript
        named = {e.meta["request"] for e in t.events if isinstance(e, MessageAppended) and "request" in e.meta}
        for id, sent in self.recorded.sent.items():
            at = self.log.index.get(sent.row.id)
            if id in named or at is None:
                continue
            leaf = next((i for i in range(at - 1, -1, -1) if t.rows[i].uuid is not None and t.own(i)), None)
            params = sent.row.data.get("params")
            model = params.get("model") if isinstance(params, dict) else None
            basis = "recorded" if sent.whole else "rebuilt"
            step = Step(0, kind, None, basis, sent.row.id, t.lines[at], sent.row.at, model if isinstance(model, str) else None)
            yield self._call(step, leaf, at, sent)

    def _unwritten(self, kind: str) -> Iterable[Call]:
        """Prompts taken from the queue of which nothing else was written: the process was killed first (2.0)."""
        t = self.transcript
        if _version(self.log.source.agent_version) >= (2, 1):
            return
        taken: int | None = None
        for i, event in enumerate(t.events):
            if isinstance(event, MessageAppended) and event.role == "user":
                taken = None
            elif isinstance(event, ForeignRow) and event.kind == "queue-operation" and event.data.get("operation") == "dequeue":
                if taken is not None:
                    leaf = next((k for k in range(taken - 1, -1, -1) if t.rows[k].uuid is not None and t.own(k)), None)
                    lost = t.events[taken]
                    step = Step(0, kind, None, "partial", lost.id, t.lines[taken], lost.at)
                    yield Call(step, self, leaf, taken, None, (UNWRITTEN,))
                taken = i

    def _compactions(self) -> Iterable[Call]:
        """Boundaries: each is the trace of a call that wrote the summary."""
        t = self.transcript
        own = {agent.log.events[-1].at: agent for agent in self.agents if agent.kind == "compact" and agent.log.events}
        for boundary in t.boundaries:
            event = t.events[boundary.at]
            assert isinstance(event, CompactionBoundaryCreated)
            leaf = self._summarised(boundary)
            if leaf is None:
                continue
            agent = next((own[at] for at in sorted(own, reverse=True) if at <= event.at), None)
            if agent is not None:
                yield _compaction_file(self, agent, leaf, boundary.at)
            else:
                step = Step(0, "compact", None, "partial", event.id, t.lines[boundary.at], event.at)
                yield Call(step, self, leaf, boundary.at, None, (SUMMARISE,))

    def _summarised(self, boundary: Boundary) -> int | None:
        """The last row that a compaction was shown: the newest, or where rows stay word for word, the one before them."""
        t = self.transcript
        if boundary.anchor == boundary.at:
            return next((i for i in reversed(t.spoken) if i < boundary.at and t.own(i)), None)
        return t.up(boundary.kept[0]) if boundary.kept else t.before(boundary)

    def rows(self, call: Call) -> list[Event]:
        """The rows of a call's request, in the order in which they were sent."""
        if call.leaf is None:
            return []
        events = self.branch(call.leaf, call.limit, self.since(call.limit))
        for row in call.extra:
            parent = row.parent if isinstance(row, MessageAppended) else None
            at = next((n for n, event in enumerate(events, 1) if event.id == parent), len(events))
            events.insert(at, row)
        return events

    def passed_by(self, leaf: int | None, limit: int) -> dict[str, tuple[str, str]]:
        """Rows that a request lacked because a resuming process walks by parents alone: id → (layer, reason)."""
        since = self.since(limit)
        if not since or leaf is None:
            return {}
        sent = {event.id for event in self.branch(leaf, limit, since)}
        return {event.id: PASSED for event in self.branch(leaf, limit, 0) if event.id not in sent}

    def branch(self, leaf: int, limit: int, since: int) -> list[Event]:
        """The rows of the branch that ends in `leaf`, of those that a file of `limit` rows held."""
        t = self.transcript
        return [t.events[i] for i in t.with_siblings(t.walk(leaf, limit), limit, since)]


def _compaction_file(story: Story, agent: Agent, leaf: int, limit: int) -> Call:
    rows = [e for e in agent.log.events if isinstance(e, MessageAppended)]
    answer = next((e for e in reversed(rows) if e.role == "assistant"), None)
    extra = tuple(e for e in rows if e.role == "user")
    record = answer if answer is not None else agent.log.events[-1]
    usage = answer.usage if answer is not None else None
    model = answer.model if answer is not None else None
    step = Step(0, "compact", usage, "rebuilt", record.id, agent.log.line(record.id), record.at, model)
    return Call(step, story, leaf, limit, None, (), extra)


def _of_agent(agent: Agent) -> list[Call]:
    story = Story(agent.log)
    return [replace_step(call, kind=agent.kind) if call.step.kind == "subagent" else call for call in story.calls]


def _merged(mine: list[Call], others: list[Call]) -> list[Call]:
    """The session's own calls in file order, the others among them by time."""
    others = sorted(others, key=lambda call: call.step.at)
    out: list[Call] = []
    for call in mine:
        while others and others[0].step.at < call.step.at:
            out.append(others.pop(0))
        out.append(call)
    return out + others


def replace_step(call: Call, **changes: object) -> Call:
    """The call with its step changed."""
    step = replace(call.step, **changes)
    return Call(step, call.story, call.leaf, call.limit, call.sent, call.unknown, call.extra)


def _usage(transcript: Transcript, members: list[int]) -> Usage | None:
    """Usage of an answer: it stands on each of its rows, and on the last with the most output."""
    found = [e.usage for i in members if isinstance(e := transcript.events[i], MessageAppended) and e.usage is not None]
    return max(found, key=lambda usage: usage.output, default=None)


def _as_system(event: Event) -> bool:
    return isinstance(event, ForeignRow) and isinstance(event.data, dict) and event.data.get("renderedRole") == "system"


def _version(text: str | None) -> tuple[int, ...]:
    """A version as numbers; that of an unknown one is the newest.

    >>> _version("2.0.77"), _version(None)
    ((2, 0, 77), (999,))
    """
    parts = (text or "").split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else (999,)
