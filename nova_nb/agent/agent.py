"""What a turn works with: the log, the projection of it, a model, tools, and who may be asked.

Knows: that the projection follows the log, whoever appends to it. Does not know the order of
events in a turn (`loop`).
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..history.events import Block, Event, MessageAppended, ProjectionCommitted, ProjectionUndone, PromptSet, RequestSent
from ..history.live import THINKING, LiveLog
from ..history.runtime import RuntimeState
from ..models.base import Delta, Model
from ..projection.calls import grouped
from ..projection.projector import Projector
from ..projection.request import Request
from ..settings import ContextSettings
from .permissions import Ask
from .tools import Tool
from .workspace import Workspace

Hook = Callable[["Agent"], Awaitable[None]]

REWRITES: tuple[type[Event], ...] = (ProjectionCommitted, ProjectionUndone, PromptSet)
"""What changes what stood before an answer; a compaction does as well, and says so itself (`compact`)."""

_KINDS: dict[type[Event], str] = {MessageAppended: "m", RequestSent: "r", PromptSet: "p"}


@dataclass
class Agent:
    """What a turn works with. `before_request` are run in order before each request: compaction, recall, …"""

    live: LiveLog
    model: Model
    settings: ContextSettings
    tools: Mapping[str, Tool]
    workspace: Workspace
    ask: Ask
    system: list[Block]
    before_request: list[Hook] = field(default_factory=list)
    watchers: list[Callable[[Delta], object]] = field(default_factory=list)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    """what each stage did to the next request, or why it did nothing; goes into its `RequestSent.meta`"""
    thoughts: dict[str, list[Block]] = field(default_factory=dict)
    """answers with thinking, whole, by message id: the log keeps no thinking (R2.3), and while this process lives the
    provider gets its own back verbatim. A compaction lets all of it go, in the same step as its summary; so does a commit
    (`record`) where the model checks its prefix."""

    state: RuntimeState = field(default_factory=RuntimeState)
    """what was read, used and allowed, and where the agent stands; `agent.state` keeps it"""
    checkpointed: RuntimeState | None = None
    """the state as the log has it"""
    notices: tuple[str, ...] = ()
    """what the person is to be told with the next answer"""

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._projector = Projector(self.settings, self.model.capabilities)
        self._seen, self._reloads = 0, self.live.reloads

    @property
    def projector(self) -> Projector:
        """The projection of all that the log holds now. Costs what was appended since it was last asked for."""
        if self.live.reloads != self._reloads:
            self._start()
        for event in self.live.events[self._seen :]:
            self._projector.add(event)
        self._seen = len(self.live.events)
        return self._projector

    @property
    def next_step(self) -> int:
        """Number of the next model call."""
        return self.live.steps + 1

    def record(self, make: type[Event], **fields: Any) -> str:
        """Append an event with a fresh id and the time; returns the id. What changes an earlier turn lets the thinking go
        on a model that binds it to all that stood before."""
        if make in REWRITES and self.model.capabilities.prefix_check:
            self.thoughts.clear()
        id = self.live.new_id(_KINDS.get(make, "e"))
        self.live.append(make(id=id, at=self.live.now(), **fields))
        return id

    def say(self, role: str, content: list[Block], origin: str, **fields: Any) -> str:
        """Append a message below the head; returns its id."""
        return self.record(MessageAppended, parent=self.live.head, role=role, content=content, origin=origin, **fields)

    def with_thoughts(self, request: Request) -> list[dict[str, Any]]:
        """A request's messages with the thinking of this process where it stood."""
        if not self.thoughts:
            return request.messages
        out = list(request.messages)
        for i, pieces in enumerate(grouped(request.pieces)):
            whole = self.thoughts.get(pieces[0].message)
            if whole is not None:
                rest = iter(out[i]["content"])
                kept = [b if b.get("type") in THINKING else next(rest, None) for b in whole]
                out[i] = {**out[i], "content": [b for b in [*kept, *rest] if b is not None]}
        return out

    def watched(self, delta: Delta) -> None:
        """Tell who watches the reply arrive. A watcher that fails is let go: watching cannot stop a turn."""
        for watch in list(self.watchers):
            try:
                watch(delta)
            except Exception as error:
                self.watchers.remove(watch)
                warnings.warn(f"a watcher of the reply failed and was removed: {error!r}", stacklevel=2)
