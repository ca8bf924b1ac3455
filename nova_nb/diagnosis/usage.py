"""Rebuilt requests against what the provider counted: grown or shrunk in another way than it was sent.

Knows: that in one session the counted input moves with the characters of the request at one rate.
Does not know why a request does not fit; a doubt is a flag to look at, never an error: images,
dropped thinking and clearing on the provider's side move the count as well. Measured on 17 real
Claude Code sessions with 1,099 calls: two doubts, one a clearing of 42,000 tokens that no row shows (2.1.17).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from ..foreign.base import Step

if TYPE_CHECKING:
    from ..session import Session

SLACK_SHARE = 0.15
SLACK_TOKENS = 4_000
SLACK_GROWTH = 0.5
"""A step is doubted when it is off by more than all three: this share of the request before it, this many tokens, and
this share of its own growth (code, prose and numbers have rates of their own)."""


class Doubt(msgspec.Struct, frozen=True):
    """A step whose rebuilt request moved in another way than what the provider counted."""

    step: int
    counted: int
    """input tokens by the provider, cache included"""
    expected: int
    """tokens that follow from the step before and what the rebuilt request gained or lost: an estimate"""
    line: int | None
    message: str


class Check(msgspec.Struct, frozen=True):
    """How the rebuilt sizes of a session's own calls move with the counted ones."""

    calls: int
    """calls compared; 0 where the log holds too few counts to say anything"""
    rate: float | None
    """characters a token, fitted to this session"""
    doubts: tuple[Doubt, ...]

    @property
    def consistent(self) -> bool | None:
        """Whether nothing speaks against the rebuilt requests; None where there is nothing to compare."""
        return not self.doubts if self.calls else None


def check_usage(session: Session) -> Check:
    """Compare the rebuilt request of every main call with its counted input.

    >>> check_usage(session).consistent        # doctest: +SKIP
    True
    """
    calls: list[tuple[Step, int, int]] = []
    epoch = 0
    for step in session.steps:
        if step.kind == "compact":
            epoch += 1
        elif step.kind == "main" and step.usage is not None and step.usage.context:
            calls.append((step, epoch, sum(piece.chars for piece in session.projection(step.number).pieces)))
    pairs = [(before, now) for before, now in itertools.pairwise(calls) if before[1] == now[1]]
    rate = _rate([(now[2] - before[2], _counted(now) - _counted(before)) for before, now in pairs])
    if rate is None:
        return Check(0, None, ())
    doubts = []
    for before, now in pairs:
        growth = (now[2] - before[2]) / rate
        expected = round(_counted(before) + growth)
        if abs(_counted(now) - expected) > max(SLACK_TOKENS, SLACK_SHARE * _counted(before), SLACK_GROWTH * abs(growth)):
            doubts.append(_doubt(now[0], _counted(now), expected))
    return Check(len(calls), rate, tuple(doubts))


def _counted(call: tuple[Step, int, int]) -> int:
    return 0 if call[0].usage is None else call[0].usage.context


def _rate(growths: list[tuple[int, int]]) -> float | None:
    """Characters a token: the median over growths, each with the weight of its characters; None below two growths."""
    rates = sorted((chars / tokens, chars) for chars, tokens in growths if tokens >= 20 and 1 <= chars / tokens <= 10)
    if len(rates) < 2:
        return None
    half = sum(weight for _, weight in rates) / 2
    for rate, weight in rates:
        half -= weight
        if half <= 0:
            return rate
    return None


def _doubt(step: Step, counted: int, expected: int) -> Doubt:
    size = "more" if counted > expected else "fewer"
    message = f"the provider counted {counted} input tokens, {size} than the about {expected} that the rebuilt request gives"
    return Doubt(step.number, counted, expected, step.line, message)
