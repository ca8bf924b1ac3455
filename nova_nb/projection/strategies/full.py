"""Nova's own stack, with a summary made by rule where a session would have asked the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ...history.events import Event, Failure, MessageAppended, Note, ProjectionCommitted
from ...settings import ContextSettings
from .. import compaction, overflow, reclaim
from ..cache import is_cold
from ..capabilities import Capabilities
from ..pieces import Piece
from ..projector import Projector
from ..spill import budget_results, externalized, reads_back
from .base import Quiet


class FullStack(Quiet):
    """Spill, reclaim and compaction, decided by the same functions as in the loop. `summarise` stands for the model."""

    name = "full"

    def __init__(
        self,
        settings: ContextSettings,
        capabilities: Capabilities | None = None,
        summarise: Callable[[Sequence[Piece]], str] | None = None,
    ) -> None:
        super().__init__(settings)
        self.capabilities = capabilities
        self.summarise = summarise or (lambda pieces: overflow.without_model(pieces, settings))
        self._calls: dict[str, tuple[str, object]] = {}

    def arrive(self, message: MessageAppended) -> tuple[MessageAppended, list[Event]]:
        for block in message.content:
            if block.get("type") == "tool_use":
                self._calls[block.get("id", "")] = (block.get("name", ""), block.get("input"))
        if not any(b.get("type") == "tool_result" for b in message.content):
            return message, []
        ids = [b.get("tool_use_id", "") for b in message.content if b.get("type") == "tool_result"]
        known = {id: self._calls.pop(id) for id in ids if id in self._calls}
        exempt = {id for id, (_, arguments) in known.items() if reads_back(arguments)}
        results, events = budget_results(
            message.content, self.settings, lambda id, text: f"tool-results/{id}.txt", exempt,
            {id: name for id, (name, _) in known.items()}, self.ids,
        )  # fmt: skip
        if not events:
            return message, []
        files = {**message.meta.get("externalized", {}), **externalized(events)}
        return replace(message, content=results, meta={**message.meta, "externalized": files}), events

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        tokens = projector.tokens
        cold = bool(now) and is_cold(projector.last_request_at, now, self.settings)
        if tokens < self.settings.soft_line and not cold:
            return []
        found = reclaim.decide(projector.messages, tokens, self.settings, cold, self.capabilities, projector.calls)
        if found.targets:
            return [
                ProjectionCommitted(
                    id=self.new_id("k"), action="reclaim", targets=found.targets, reason=found.reason, policy=reclaim.POLICY,
                    leaf=projector.head, meta=found.entry.plain(),
                )
            ]  # fmt: skip
        due = compaction.due(tokens, self.settings, projector.health)
        return [self.compacted(projector, due.trigger)] if due.now else []

    def compacted(self, projector: Projector, trigger: str) -> Event:
        """The boundary, with a summary by rule (marked as such)."""
        messages = projector.messages
        prefix_check = self.capabilities is not None and self.capabilities.prefix_check
        planned = compaction.plan(messages, self.settings, prefix_check, projector.chars)
        if planned.cut is None:
            return Note(id=self.new_id("n"), kind="compaction-skipped", message=planned.why)
        summary = self.summarise([p for m in messages[: planned.cut] for p in m])
        made = compaction.commit(
            planned, summary, messages, self.settings, self.ids, leaf=projector.head, trigger=trigger,
            tokens_before=projector.tokens, meta={"summary": "mechanical"},
        )  # fmt: skip
        if isinstance(made, str):
            return Failure(id=self.new_id("f"), part="compaction", message=made)
        return replace(made, id=self.new_id("c"))
