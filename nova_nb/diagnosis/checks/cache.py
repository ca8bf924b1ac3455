"""Layer "cache": the prefix changed, and the provider read less of it than it could have.

Knows: what was cached by the call before and what this call read, within the cache's life. It costs
money and time only; nothing is forgotten by it. What changed is in no log.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...history.events import ForeignRow
from ..facts import Facts
from ..report import Finding
from ..witness import Answer

LIFE_SECONDS = 240.0
"""Within the five minutes after which a cached prefix may lawfully be gone, with room for how long the answer took."""
EXACT = frozenset({"claude-code", "nova"})
"""Agents whose provider reads exactly the marked prefix; where caching is best effort a miss says nothing."""
LEAST_TOKENS = 5_000
"""A smaller miss is not worth a word."""
SHARE = 0.35
"""Part of the prefix that must have been read anew."""


def prefix_broke(facts: Facts) -> Iterator[Finding]:
    """A call within the cache's life read much less than the call before had put there, though its request only grew."""
    if facts.log.source.format not in EXACT:
        return
    for before, now in facts.neighbours():
        cached = before.usage.cache_read + before.usage.cache_write
        missed = cached - now.usage.cache_read
        if before.at is None or now.at is None or now.at - before.at > LIFE_SECONDS or now.context < before.context:
            continue
        if before.step.model != now.step.model or missed < max(LEAST_TOKENS, SHARE * cached) or not before.usage.cache_read:
            continue
        if any(i not in facts.reachable for i in facts.spoken_between(before.rows[-1], now.rows[0])):
            continue  # another request was made in between, on another branch
        reason = _explained(facts, before, now)
        what = (
            f"{now.at - before.at:.0f} s after the call before, the call at line {facts.log.lines[now.rows[0]]} read "
            f"{now.usage.cache_read:,} tokens from the cache where {cached:,} were there, and paid for the rest again"
        )
        if reason:
            yield facts.finding("prefix-moved", "cache", "note", list(now.rows[:2]), f"{what}; {reason}", fate="intact")
        else:
            yield facts.finding(
                "prefix-broke", "cache", "symptom", list(now.rows[:2]),
                f"{what}: the request's beginning changed. Nothing was forgotten; what changed is not in the log, and a capture of both "
                "requests would show it",
                certainty="undecidable", fate="intact",
                remedy="compare two captured requests: tool list, system prompt, a date or a directory in them",
            )  # fmt: skip


def _explained(facts: Facts, before: Answer, now: Answer) -> str | None:
    """What the log itself offers as a reason, in words; None where it offers none."""
    if not now.usage.cache_read:
        return "nothing at all was read: another account or process, or caching was off"
    for i in range(before.rows[-1] + 1, now.rows[0]):
        event = facts.events[i]
        if isinstance(event, ForeignRow) and event.kind.startswith(
            ("attachment/", "mode", "permission-mode", "system/microcompact")
        ):
            return f"a row at line {facts.log.lines[i]} ({event.kind}) changed what is put in"
    n = facts.order[now.rows[0]]
    turn = facts.path[max(n - 60, 0) : n]
    if turn and facts.person(turn[-1]) and any(_thinks(facts, i) for i in turn):
        return "the thinking of the turn before is dropped when the person speaks, which moves all after it"
    return None


def _thinks(facts: Facts, i: int) -> bool:
    event = facts.message(i)
    return event is not None and any(block.get("type") in ("thinking", "redacted_thinking") for block in event.content)
