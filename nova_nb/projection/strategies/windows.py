"""Sliding windows: the newest messages by count or by tokens; what falls out is gone from the request [004]."""

from __future__ import annotations

from msgspec.structs import replace

from ...history.events import Event, MessageAppended
from ...settings import ContextSettings
from ..calls import grouped
from ..pieces import block_chars
from ..projector import Projector
from .base import Quiet, first_cut, sizes_of


class WindowByCount(Quiet):
    """The newest `count` messages, each cut to `cap_chars` as it arrives.

    60 messages of about 1,000 tokens: the worked example of seed 004. Read the distribution of message lengths
    first (`message_lengths`) and set both from it.
    """

    name = "window-count"

    def __init__(self, settings: ContextSettings, count: int = 60, cap_chars: int | None = None) -> None:
        super().__init__(settings)
        self.count = count
        self.cap_chars = cap_chars or int(settings.soft_line * settings.chars_per_token / count)

    def arrive(self, message: MessageAppended) -> tuple[MessageAppended, list[Event]]:
        if all(block_chars(b) <= self.cap_chars for b in message.content):
            return message, []
        return replace(message, content=[self._capped(b) for b in message.content]), []

    def _capped(self, block: dict) -> dict:  # type: ignore[type-arg]
        field = "text" if block.get("type") == "text" else "content"
        text = block.get(field)
        if not isinstance(text, str) or len(text) <= self.cap_chars:
            return block
        return {**block, field: text[: self.cap_chars] + f"\n[cut at {self.cap_chars:,} of {len(text):,} characters]"}

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        messages = grouped(projector.projection().pieces)
        if len(messages) <= self.count:
            return []
        return [self.start_at(projector, first_cut(messages, len(messages) - self.count), [])]


class WindowByTokens(Quiet):
    """The newest messages that fit below the soft line, at every request anew."""

    name = "window-tokens"

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        if self.fits(projector):
            return []
        room = self.history_tokens(projector)
        messages = grouped(projector.projection().pieces)
        sizes = sizes_of(messages, self.settings)
        total = sum(sizes)
        cut = 0
        while cut < len(sizes) and total > room:
            total -= sizes[cut]
            cut += 1
        return [self.start_at(projector, first_cut(messages, cut), [])] if cut else []
