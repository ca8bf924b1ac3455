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
from typing import Protocol

from .. import ids as clock
from ..errors import UsageError
from .artifacts import Artifacts
from .chain import Node, walk
from .events import BranchSelected, CompactionBoundaryCreated, Event

Subscriber = Callable[[Event], object]


class Store(Protocol):
    """Where events go. `append` returns the event as it will be read back, once it is as safe as the policy says."""

    def append(self, event: Event) -> Event: ...

    def close(self) -> None: ...


class Memory:
    """A store that keeps nothing beyond the process: for views, tests and lessons."""

    def append(self, event: Event) -> Event:
        return event

    def close(self) -> None:
        pass


class LiveLog:
    """A session that goes on. `events` are those loaded so far, in the order of the log.

    >>> live = LiveLog(session_id="s1")
    >>> live.append(MessageAppended(id="m1", role="user", content=[]))   # doctest: +SKIP
    >>> live.head                                                         # doctest: +SKIP
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
    ) -> None:
        self.directory = directory
        self.session_id = session_id
        self.events: list[Event] = []
        self.head: str | None = None
        self.chain: list[Node] = []
        """active chain, oldest first: the boundary, the messages it keeps, then what came after"""
        self.artifacts = None if directory is None else Artifacts(directory, tuple(past))
        self._store = store or Memory()
        self._source = ids or clock.System()
        self._ids: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._subscribers: list[Subscriber] = []
        self._open = True
        for event in events:
            self._fold(event)

    def append(self, event: Event) -> Event:
        """Add one event: first to the store, then to the state, then to subscribers. Returns it as stored.

        Raises LogWriteError when it could not be stored (then nothing has changed) and UsageError
        for an id that the log holds already or a session that is closed.
        """
        if not self._open:
            raise UsageError(f"session {self.session_id} is closed; resume it to go on")
        if event.id in self._ids:
            raise UsageError(f"the log holds an event {event.id!r} already; take ids from LiveLog.new_id()")
        event = self._store.append(event)
        self._fold(event)
        for subscriber in list(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:
                # the event is stored and the turn must go on: who only watches cannot stop it
                with suppress(ValueError):
                    self._subscribers.remove(subscriber)
                warnings.warn(f"a subscriber of session {self.session_id} failed and was removed: {error!r}", stacklevel=2)
        return event

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(event)` after each append; returns the function that ends it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._subscribers.remove(subscriber)

        return unsubscribe

    def new_id(self, kind: str = "m") -> str:
        """A fresh id that this log does not hold."""
        while (id := self._source.new_id(kind)) in self._ids:
            pass
        return id

    def now(self) -> str:
        """The time as events have it."""
        return clock.iso(self._source.now())

    def close(self) -> None:
        """Release the log; it can be resumed."""
        if self._open:
            self._open = False
            self._store.close()

    def __enter__(self) -> LiveLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fold(self, event: Event) -> None:
        self.events.append(event)
        self._ids.add(event.id)
        if isinstance(event, Node):
            self._nodes[event.id] = event
            if isinstance(event, CompactionBoundaryCreated) or event.parent != self.head:
                self.chain = walk(self._nodes, event.id)
            else:
                self.chain.append(event)
            self.head = event.id
        elif isinstance(event, BranchSelected):
            self.head = event.leaf
            self.chain = walk(self._nodes, event.leaf)
