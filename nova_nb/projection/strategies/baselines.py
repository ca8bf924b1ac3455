"""Two well-known baselines from outside: masking old observations, and cutting the middle of long outputs.

Masking keeps the newest results whole and puts a line in the place of older ones (the "Complexity Trap"
study, arXiv 2508.21433, found it as good as model summaries at half the cost). The middle cut keeps
5,000 characters from each end of an output over 10,000 (as mini-swe-agent does). Neither bounds a
session by itself: past the soft line both drop the oldest half.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...history.events import Event, MessageAppended, ProjectionCommitted
from ...settings import ContextSettings
from ..calls import grouped
from ..overflow import middle_cut
from ..projector import Projector
from .base import Quiet, first_cut, sizes_of


class _Halving(Quiet):
    def before_request(self, projector: Projector, now: str) -> list[Event]:
        if self.fits(projector):
            return []
        room = self.history_tokens(projector)
        messages = grouped(projector.projection().pieces)
        sizes = sizes_of(messages, self.settings)
        total, cut = sum(sizes), 0
        while cut < len(sizes) and total > room // 2:
            total -= sizes[cut]
            cut += 1
        return [self.start_at(projector, first_cut(messages, cut), [])]


class Masking(_Halving):
    """The newest `keep` results whole, older ones a line; in batches of `keep`, since each time the prefix moves."""

    name = "masking"

    def __init__(self, settings: ContextSettings, keep: int = 10) -> None:
        super().__init__(settings)
        self.keep = keep

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        dropped = super().before_request(projector, now)
        if dropped:
            return dropped
        results = [p for p in projector.projection().pieces if p.block.get("type") == "tool_result"]
        old = [p for p in results[: -self.keep or None] if p.state in ("whole", "preview") and p.chars > 200]
        if len(old) < self.keep:
            return []
        targets = [f"{p.sources[0]}#{p.block.get('tool_use_id')}" for p in old]
        commit = ProjectionCommitted(
            id=self.new_id("k"), action="reclaim", targets=targets, text="Old output omitted:", reason="masked", policy=self.name,
            leaf=projector.head,
        )  # fmt: skip
        return [commit]


class MiddleCut(_Halving):
    """Outputs over 10,000 characters keep their first and last 5,000."""

    name = "middle-cut"
    limit = 10_000

    def arrive(self, message: MessageAppended) -> tuple[MessageAppended, list[Event]]:
        if not any(len(b.get("content") or "") > self.limit for b in message.content if isinstance(b.get("content"), str)):
            return message, []
        cut = [
            {**b, "content": middle_cut(b["content"], self.limit)} if isinstance(b.get("content"), str) else b
            for b in message.content
        ]
        return replace(message, content=cut), []
