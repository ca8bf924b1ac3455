"""Is a compaction worth it? What the summary call costs against what carrying the text costs (R5.9).

Knows: the arithmetic, at cache prices. Does not know quality: a summary also loses detail, and no number
here says what that is worth. All results are estimates in tokens of fresh input (a cached token read
counts 0.1, one written 1.25, an output token 5, unless a price says otherwise); multiply by the model's
input price for money.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..history.events import Usage
from ..settings import ContextSettings
from .usage import RATIOS, Price, price_of


class Deal(msgspec.Struct, frozen=True):
    """Compacting before one step: what it costs now and what it saves while the session goes on."""

    step: int
    context: int
    """tokens of the request without it"""
    after: int
    """tokens of the request with it"""
    cost: float
    """the summary call and writing the new prefix to the cache"""
    saves_a_step: float
    """carrying cost of what leaves, for each further step"""
    break_even: float
    """further steps from which it pays; infinite when nothing leaves"""
    gain: float
    """what it saves over the expected remaining steps, less its cost; negative: do not"""


def deal(
    step: int, context: int, after: int, remaining: float, summary_tokens: int, hot: bool = True, price: Price = RATIOS
) -> Deal:
    """One compaction. `remaining` are the further steps expected, `hot` whether the prefix is in the cache.

    >>> d = deal(1, context=167_000, after=20_000, remaining=50, summary_tokens=4_000)
    >>> round(d.cost), round(d.saves_a_step), round(d.break_even, 1), round(d.gain)
    (61700, 14700, 4.2, 673300)
    """
    read, write, out = price.cache_read, price.cache_write, price.output / price.input
    call = context * (read if hot else write) + summary_tokens * out
    cost = call + after * write
    saves = (context - after) * read
    return Deal(step, context, after, cost, saves, cost / saves if saves > 0 else float("inf"), saves * remaining - cost)


def deals(contexts: Sequence[int], settings: ContextSettings, after: int | None = None, price: Price = RATIOS) -> list[Deal]:
    """Compacting at each step of a session with these context sizes, as if it were the only one; the steps that
    really came after it are the remaining ones.

    `after` is the size a compaction leaves; by default what the first request carried (system, tools and the
    opening) plus the settings' smallest tail and summary.
    """
    if not contexts:
        return []
    left = after if after is not None else contexts[0] + settings.tail_min_tokens + settings.summary_max_tokens // 2
    summary = settings.summary_max_tokens // 2
    return [
        deal(i, context, min(left, context), len(contexts) - i, summary, price=price) for i, context in enumerate(contexts, 1)
    ]


def best_threshold(tokens_a_step: float, after: int, summary_tokens: int, price: Price = RATIOS) -> int:
    """The context size at which compacting each time is cheapest, for a session that grows by `tokens_a_step`.

    Per step, a cycle from `after` to the threshold T costs its carrying (read × (after + T) / 2) and its share of the
    compaction. The least is at T = after + sqrt(2 × fixed × growth / read), with fixed = what a compaction costs at
    size `after`; the part of the call that grows with T is the same in every step and moves nothing.

    >>> best_threshold(1_100, 12_000, 2_000)
    36008
    """
    read, write, out = price.cache_read, price.cache_write, price.output / price.input
    fixed = after * (read + write) + summary_tokens * out
    return round(after + math.sqrt(2 * fixed * tokens_a_step / read))


def bill(usages: Iterable[tuple[Usage | None, str | None]]) -> dict[str, Any]:
    """Cost of a session by request: (usage, model) of each call. Dollars only where every model has a price.

    >>> bill([(Usage(input=1_000_000), "claude-sonnet-4-5"), (None, "claude-sonnet-4-5")])["dollars"]
    3.0
    """
    rows: list[dict[str, Any]] = []
    dollars, known = 0.0, True
    for n, (usage, model) in enumerate(usages, 1):
        if usage is None:
            continue
        price = price_of(model)
        cost = price.cost(usage) if price else None
        known, dollars = known and price is not None, dollars + (cost or 0.0)
        rows.append(
            {"step": n, "dollars": cost, "equivalents": (price or RATIOS).equivalents(usage), "cached": usage.cache_read}
        )
    total: float = sum(r["equivalents"] for r in rows)
    return {"steps": rows, "equivalents": total, "dollars": dollars if known and rows else None}
