"""The open end of a session: append, and everyone who watches sees it.

Knows: the order append → durable → state → subscribers, and the state that is a fold of the
events (head and chain). Does not know files (`journal`), directories (`library`) or what a
model sees. One thread appends.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from .. import ids as clock
from ..errors import UsageError
from .artifacts import Artifacts
from .chain import Node, path_to_root, walk
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
)
from .journal import encode
from .tail import PLACED, Loaded, Place

Subscriber = Callable[[Event], object]
THINKING = ("thinking", "redacted_thinking")
E = TypeVar("E", bound=Event)


class Store(Protocol):
    """Where events go. Every store passes `tests/contracts`.

    `append` returns the event as it will be read back, once it is as safe as the policy says; when it
    raises, nothing was added. `size` grows with each append; `at` is the size before the last one.
    """

    @property
    def size(self) -> int: ...

    @property
    def at(self) -> int: ...

    def append(self, event: Event) -> Event: ...

    def close(self) -> None: ...


class Memory:
    """A store that keeps nothing beyond the process: for views, tests and lessons."""

    def __init__(self) -> None:
        self.size = self.at = 0

    def append(self, event: Event) -> Event:
        event, line = encode(event)
        self.at, self.size = self.size, self.size + len(line)
        return event

    def close(self) -> None:
        pass


class LiveLog:
    """A session that goes on. `events` are those loaded so far, in the order of the log.

    A session that was read from its end knows its active chain and what belongs to it; `whole`
    says whether that is everything. Going to a node behind that loads the rest first; `reloads`
    counts that, for whoever folds the events as well and must then start again.

    >>> live = LiveLog(session_id="s1")
    >>> live.append(MessageAppended(id="m1", role="user", content=[])).id
    'm1'
    >>> live.head
    'm1'
    """

    def __init__(
        self,
        store: Store | None = None,
        events: Iterable[Event] = (),
        *,
        session_id: str = "",
        directory: Path | None = None,
        past: Iterable[Path] = (),
        ids: clock.Source | None = None,
        places: dict[str, Place] | None = None,
        steps: int = 0,
        older: Callable[[], Loaded] | None = None,
    ) -> None:
        self.directory = directory
        self.session_id = session_id
        self.events: list[Event] = []
        self.head: str | None = None
        self.chain: list[Node] = []
        """active chain, oldest first: the boundary, the messages it keeps, then what came after"""
        self.artifacts = None if directory is None else Artifacts(directory, tuple(past))
        self.steps = steps
        """the highest number of a model call so far, loaded or not; the next is one more"""
        self.reloads = 0
        self._store = store or Memory()
        self._source = ids or clock.System()
        self._places = places or {}
        self._older = older
        self._subscribers: list[Subscriber] = []
        self._open = True
        self._load(events)

    @property
    def whole(self) -> bool:
        """Whether `events` is the whole log."""
        return self._older is None

    def append(self, event: Event) -> Event:
        """Add one event: first to the store, then to the state, then to subscribers. Returns it as stored.

        Thinking is not stored (R2.3): a message keeps a note of it in `meta["thinking"]`. A boundary is
        followed by an anchor, from which a resume finds what the chain still needs of the time before.
        Raises LogWriteError when it could not be stored (then nothing has changed) and UsageError
        for an id that the log holds already or a session that is closed.
        """
        if not self._open:
            raise UsageError(f"session {self.session_id} is closed; resume it to go on")
        if event.id in self._ids:
            raise UsageError(f"the log holds an event {event.id!r} already; take ids from LiveLog.new_id()")
        self._reach(event)
        stored = self._write(without_thinking(event))
        if isinstance(stored, CompactionBoundaryCreated):
            self._write(self._anchor(stored))
        return stored

    def rewind(self, leaf: str | None, reason: str = "rewind") -> Event:
        """Go on from `leaf` (None: from nothing); the branch that is left stays. Raises UsageError for an unknown node."""
        return self.append(BranchSelected(id=self.new_id("b"), at=self.now(), leaf=leaf, reason=reason))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(event)` after each append; returns the function that ends it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._subscribers.remove(subscriber)

        return unsubscribe

    def load_older(self) -> None:
        """Load what a resume from the end left out. Everything is then in `events`."""
        if self._older is not None:
            loaded = self._older()
            self._older = None
            self._places = loaded.places
            self._load(loaded.events)
            self.reloads += 1

    def new_id(self, kind: str = "m") -> str:
        """A fresh id that this log does not hold."""
        while (id := self._source.new_id(kind)) in self._ids:
            pass
        return id

    def now(self) -> str:
        """The time as events have it."""
        return clock.iso(self._source.now())

    def last(self, kind: type[E], named: str | None = None) -> E | None:
        """The last loaded event of a type (and with this `kind`, for those that have one), or None."""
        found = (event for event in reversed(self.events) if isinstance(event, kind))
        return next((event for event in found if named is None or getattr(event, "kind", None) == named), None)

    def close(self) -> None:
        """Release the log; it can be resumed."""
        if self._open:
            self._open = False
            self._store.close()

    def __enter__(self) -> LiveLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, event: Event) -> Event:
        size = self._store.size
        try:
            event = self._store.append(event)
        finally:
            # an interrupt may come while the disk is being waited for: what is in the store is in the state
            if self._store.size > size:
                if isinstance(event, PLACED):
                    self._places[event.id] = self._store.at
                self._fold(event)
        for subscriber in list(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:
                # the event is stored and the turn must go on: who only watches cannot stop it
                with suppress(ValueError):
                    self._subscribers.remove(subscriber)
                warnings.warn(f"a subscriber of session {self.session_id} failed and was removed: {error!r}", stacklevel=3)
        return event

    def _reach(self, event: Event) -> None:
        """Load older history when the event goes to a node behind what is loaded."""
        leaf = event.leaf if isinstance(event, BranchSelected) else event.parent if isinstance(event, MessageAppended) else None
        if leaf is None or leaf == self.head:
            return
        if not self.whole:
            first = self.chain[0] if self.chain else None
            kept = len(first.kept) if isinstance(first, CompactionBoundaryCreated) else 0
            if leaf not in (node.id for node in self.chain[kept + 1 :]):
                self.load_older()
        if leaf not in self._nodes:
            raise UsageError(f"session {self.session_id} has no message {leaf!r}; take an id from its chain or its branches")

    def _load(self, events: Iterable[Event]) -> None:
        self.events.clear()
        self.head, self.chain = None, []
        self._ids: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._commits: list[tuple[str | None, ProjectionCommitted]] = []
        self._undone: list[tuple[str | None, str]] = []
        for event in events:
            self._fold(event)

    def _fold(self, event: Event) -> None:
        self.events.append(event)
        self._ids.add(event.id)
        if isinstance(event, MessageAppended):  # most events by far: asked first
            self._nodes[event.id] = event
            if event.parent == self.head:
                self.chain.append(event)
            else:
                self.chain = walk(self._nodes, event.id)
            self.head = event.id
        elif isinstance(event, CompactionBoundaryCreated):
            self._nodes[event.id] = event
            self.chain = walk(self._nodes, event.id)
            self.head = event.id
        elif isinstance(event, BranchSelected):
            if event.leaf != self.head:
                self.chain = walk(self._nodes, event.leaf)
            self.head = event.leaf
        elif isinstance(event, RequestSent):
            self.steps = max(self.steps, event.step)
        elif isinstance(event, ProjectionCommitted):
            self._commits.append((event.leaf or self.head, event))
        elif isinstance(event, ProjectionUndone):
            self._undone.append((event.leaf or self.head, event.commit))

    def _anchor(self, boundary: CompactionBoundaryCreated) -> Note:
        path: set[str | None] = {node.id for node in path_to_root(self._nodes, boundary.id)}
        path.add(None)
        undone = {commit for leaf, commit in self._undone if leaf in path}
        kept = set(boundary.kept)
        commits = [
            c for leaf, c in self._commits
            if leaf in path and c.id not in undone and not kept.isdisjoint(t.partition("#")[0] for t in c.targets)
        ]  # fmt: skip
        wanted: list[Event | None] = [
            self.last(PromptSet),
            self.last(RuntimeStateCheckpointed),
            self.last(RequestSent),
            *commits,
        ]
        places = {event.id: self._places[event.id] for event in wanted if event is not None}
        return Note(
            id=f"{boundary.id}:anchor",
            at=boundary.at,
            kind="anchor",
            meta={"boundary": boundary.id, "steps": self.steps, "places": places},
        )


def without_thinking(event: Event) -> Event:
    """The event as it is stored: thinking becomes a note of how much there was (R2.3).

    >>> m = MessageAppended(id="m", role="assistant", content=[{"type": "thinking", "thinking": "Hm."}])
    >>> stored = without_thinking(m)
    >>> stored.content, stored.meta
    ([], {'thinking': {'blocks': 1, 'chars': 3}})
    """
    if not isinstance(event, MessageAppended) or not any(b.get("type") in THINKING for b in event.content):
        return event
    thought = [b for b in event.content if b.get("type") in THINKING]
    note = {"blocks": len(thought), "chars": sum(len(str(b.get("thinking") or "")) for b in thought)}
    return msgspec.structs.replace(
        event, content=[b for b in event.content if b.get("type") not in THINKING], meta={**event.meta, "thinking": note}
    )
