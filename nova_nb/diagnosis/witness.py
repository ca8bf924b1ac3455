"""Recorded usage as a witness of what was sent.

Knows: within one stretch without a boundary, what the provider counted grows with the characters that
the log's own rules put into the request, at one rate of characters a token and above one fixed part
(system prompt and tools). `Witness` holds both, fitted to this log alone. Where the counts do not
follow the rows there is no witness. Judges nothing.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..foreign.base import Step
from ..history.events import Event, ForeignRow, MessageAppended, Usage
from ..projection.pieces import block_chars


@dataclass(frozen=True)
class Answer:
    """One answered model call on the active branch.

    `context` is what the provider counted as input, cache included, in tokens. `chars` is what the
    log's rules give for its request since the last boundary; `turn_chars` the part of it since the
    person spoke last.
    """

    step: Step
    rows: tuple[int, ...]
    at: float | None
    usage: Usage
    epoch: int
    chars: int
    turn_chars: int

    @property
    def context(self) -> int:
        return self.usage.context


@dataclass(frozen=True)
class Witness:
    """`context ≈ fixed + chars / rate`, fitted on `answers` calls of this log."""

    rate: float
    """characters a token"""
    fixed: float
    """tokens of what is in no row: system prompt, tools, reminders"""
    answers: int

    def expected(self, chars: int) -> float:
        return self.fixed + chars / self.rate


GROWTH_TOKENS, GROWTH_SHARE = 1_500, 0.5
"""A call's growth agrees with its rows when it is off by less than the larger of these."""
AGREE = 0.5
"""Part of the calls whose growth must agree with their rows; else the counts are of something else, and no witness."""


LEAST, MOST = 0.8, 12.0
"""Characters a token that text can have at all: a pair outside carried more, or less, than its rows."""


def fit(answers: Sequence[Answer]) -> Witness | None:
    """Rate and fixed part, by medians, so that a call that carried less than the log says does not move them. None with too
    few calls, or where the counts do not follow the rows."""
    pairs = [
        (now.chars - before.chars, now.context - before.context)
        for before, now in itertools.pairwise(answers)
        if before.epoch == now.epoch
    ]
    rates = [
        (chars / tokens, chars) for chars, tokens in pairs if chars >= 60 and tokens >= 20 and LEAST <= chars / tokens <= MOST
    ]
    if len(rates) < 2:
        return None
    rate = _weighted_median(rates)
    follow = sum(abs(tokens - chars / rate) <= max(GROWTH_TOKENS, GROWTH_SHARE * abs(chars) / rate) for chars, tokens in pairs)
    if follow < AGREE * len(pairs):
        return None
    fixed = statistics.median(a.context - a.chars / rate for a in answers)
    return Witness(rate, max(fixed, 0.0), len(answers))


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """The value at half of the weight: what much text says counts more than what little text says.

    >>> _weighted_median([(0.1, 700), (3.8, 1_900)])
    3.8
    """
    half, seen = sum(weight for _, weight in values) / 2, 0
    for value, weight in sorted(values):
        seen += weight
        if seen >= half:
            return value
    raise ValueError("no values")


def row_chars(event: Event) -> int:
    """Characters that a row puts into a request: its blocks, or the text of an attachment."""
    if isinstance(event, MessageAppended):
        return sum(block_chars(block) for block in event.content)
    if isinstance(event, ForeignRow) and event.kind.startswith("attachment/") and isinstance(event.data, dict):
        rendered = event.data.get("rendered")
        if isinstance(rendered, list):
            return sum(
                len(part.get("content") or "")
                for part in rendered
                if isinstance(part, dict) and isinstance(part.get("content"), str)
            )
        inner = event.data.get("attachment")
        if isinstance(inner, dict) and inner.get("type") in (
            "hook_additional_context",
            "queued_command",
            "file",
            "nested_memory",
        ):
            return _text_size(inner)
    return 0


def _text_size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_text_size(v) for k, v in value.items() if k in ("content", "prompt", "text", "file", "addedLines"))
    return sum(_text_size(v) for v in value) if isinstance(value, list) else 0


def seconds(at: str) -> float | None:
    """ISO 8601 as seconds since the epoch.

    >>> seconds("1970-01-01T00:01:00.000Z")
    60.0
    """
    try:
        return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
