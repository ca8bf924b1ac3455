"""The protocol of a strategy, and what several of them share: a cut that leaves units whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...history.events import Block, CompactionBoundaryCreated, Event, MessageAppended
from ...ids import Fixed
from ...settings import ContextSettings
from ..calls import grouped
from ..compaction import message_tokens
from ..invariants import PROTOCOL, safe_cuts
from ..pieces import Piece
from ..projector import Projector
from ..repair import Message


class Strategy(Protocol):
    """A policy that sees messages arrive and acts before requests, in events.

    `now` is the time of the request as the log has it, "" where it has none.
    """

    name: str

    def arrive(self, message: MessageAppended) -> tuple[MessageAppended, list[Event]]:
        """The message as it enters history, and events that come before it."""
        ...

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        """Events that are appended before the next request."""
        ...


class Quiet:
    """A strategy that does nothing: what others build on."""

    name = "none"

    def __init__(self, settings: ContextSettings) -> None:
        self.settings = settings
        self.ids = Fixed()

    def arrive(self, message: MessageAppended) -> tuple[MessageAppended, list[Event]]:
        return message, []

    def before_request(self, projector: Projector, now: str) -> list[Event]:
        return []

    def new_id(self, kind: str) -> str:
        return self.ids.new_id(f"{self.name}-{kind}")

    def history_tokens(self, projector: Projector) -> int:
        """Tokens that messages may take: up to the soft line, system and tools taken off."""
        budget = projector.budget
        return max(0, self.settings.soft_line - budget.system - budget.tools)

    def fits(self, projector: Projector) -> bool:
        """Whether the next request is within the soft line; known without reading its messages."""
        return projector.budget.used <= self.settings.soft_line

    def start_at(self, projector: Projector, cut: int, content: list[Block], **meta: Any) -> CompactionBoundaryCreated:
        """A boundary that keeps `messages[cut:]` and stands for the rest with `content`."""
        messages = grouped(projector.projection().pieces)
        kept = list(dict.fromkeys(s for m in messages[cut:] for p in m for s in p.sources))
        return CompactionBoundaryCreated(
            id=self.new_id("c"), logical_parent=projector.head, trigger=self.name, content=content, kept=kept,
            tokens_before=projector.tokens, meta={"policy": self.name, **meta},
        )  # fmt: skip


def sizes_of(messages: Sequence[Message], settings: ContextSettings) -> list[int]:
    """Estimated tokens of each message."""
    return [message_tokens(m, settings) for m in messages]


def first_cut(messages: Sequence[Message], at_least: int) -> int:
    """The first safe cut at or after a position: units stay whole, never more than wanted is kept."""
    return min(c for c in safe_cuts(messages, PROTOCOL) if c >= at_least)


def texts(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """(who, text) of pieces, for a summary by rule."""
    from ..confidence import words

    out = []
    for piece in pieces:
        if piece.state in ("summary", "attachment", "placeholder"):
            continue
        kind = piece.block.get("type")
        who = "person" if piece.role == "user" and kind == "text" and piece.state == "whole" else "model"
        out.append((who if kind == "text" else "tool", words(piece) if kind != "tool_result" else ""))
    return out
