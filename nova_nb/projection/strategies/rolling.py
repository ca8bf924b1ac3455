"""Rolling summary: what is pushed out waits in a batch, then joins one merged summary, symbols kept [004]."""

from __future__ import annotations

from ...history.events import Block, Event
from ...settings import ContextSettings
from ..calls import grouped
from ..projector import Projector
from ..repair import Message
from ..summary import framed, mechanical
from .base import Quiet, first_cut, sizes_of, texts


class Rolling(Quiet):
    """The newest `share` of the room stays verbatim; older messages wait until the room is full, then all of them are
    merged into the summary at once. The summary is made by rule, so it needs no model."""

    name = "rolling-summary"
    share = 0.5

    def __init__(self, settings: ContextSettings) -> None:
        super().__init__(settings)
        self.said: list[tuple[str, str]] = []
        """what was summarised so far; a merge reads all of it, so that nothing is summarised twice"""

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        if self.fits(projector):
            return []
        room = self.history_tokens(projector)
        messages = grouped(projector.projection().pieces)
        sizes = sizes_of(messages, self.settings)
        cut, tail = len(messages), 0
        while cut > 0 and tail + sizes[cut - 1] <= room * self.share:
            cut -= 1
            tail += sizes[cut]
        cut = first_cut(messages, cut)
        gone = messages[:cut]
        self.said += texts([p for m in gone for p in m])
        return [self.start_at(projector, cut, self.content(gone, messages[cut:]))]

    def content(self, gone: list[Message], kept: list[Message]) -> list[Block]:
        """What stands for everything that left so far."""
        limit = int(self.settings.summary_max_tokens * self.settings.chars_per_token)
        return [{"type": "text", "text": framed(mechanical(self.said, limit), "")}]
