"""Usage as providers report it, made one measure (R9.3), and what it cost.

Knows: which counts overlap at which provider, and the price file. Anthropic counts cache reads and
writes apart from `input_tokens`; OpenAI's cached tokens are part of its input and are taken out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ..history.events import Usage

PRICES = Path(__file__).with_name("prices.toml")


def normalise(raw: Mapping[str, Any] | None) -> Usage:
    """A provider's usage object as four parts that never overlap. Told apart by their fields; unknown ones count nothing.

    >>> normalise({"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 3})
    Usage(input=10, output=3, cache_read=90, cache_write=5)
    >>> normalise({"prompt_tokens": 100, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 90}})
    Usage(input=10, output=3, cache_read=90, cache_write=0)
    >>> normalise({"input_tokens": 100, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 90}})
    Usage(input=10, output=3, cache_read=90, cache_write=0)
    """
    if not raw:
        return Usage()

    def count(name: str, of: Mapping[str, Any] = raw) -> int:
        value = of.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    details = raw.get("prompt_tokens_details") or raw.get("input_tokens_details")
    if isinstance(details, Mapping) or "prompt_tokens" in raw:
        whole = count("prompt_tokens") or count("input_tokens")
        cached = min(whole, count("cached_tokens", details) if isinstance(details, Mapping) else 0)
        return Usage(whole - cached, count("completion_tokens") or count("output_tokens"), cached, 0)
    return Usage(
        count("input_tokens"), count("output_tokens"), count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    )


class Price(msgspec.Struct, frozen=True):
    """Dollars per million tokens; the cache factors are of the input price. `source` and `date`: where and when it was read."""

    input: float
    output: float
    cache_read: float = 0.1
    cache_write: float = 1.25
    provider: str = ""
    date: str = ""
    source: str = ""

    def cost(self, usage: Usage) -> float:
        """Dollars of one call.

        >>> Price(3.0, 15.0).cost(Usage(input=1_000_000, cache_read=1_000_000, output=100_000))
        4.8
        """
        return round(self.equivalents(usage) * self.input / 1e6, 10)

    def equivalents(self, usage: Usage) -> float:
        """The same in tokens of fresh input, so that models and policies compare without a price list."""
        out = self.output / self.input if self.input else 0.0
        return usage.input + usage.cache_read * self.cache_read + usage.cache_write * self.cache_write + usage.output * out


_RELEASE = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|latest)$")

RATIOS = Price(1.0, 5.0)
"""What holds for Anthropic's models whatever their price: output 5 times the input, reads 0.1, writes 1.25."""


@cache
def _table() -> dict[str, Price]:
    data = tomllib.loads(PRICES.read_text("utf-8"))
    out = {}
    for provider, entry in data.items():
        common = {k: entry[k] for k in ("cache_read", "cache_write", "date", "source")}
        for name, price in entry["model"].items():
            out[name] = Price(**{**common, **price, "provider": provider})
    return out


def price_of(model: str | None) -> Price | None:
    """The price of a model by its name, whatever release date stands behind it; None when the file has none.

    >>> price_of("claude-sonnet-4-5-20250929").input, price_of("gpt-5.9") is None
    (3.0, True)
    """
    name = (model or "").rsplit("/", 1)[-1]
    return _table().get(_RELEASE.sub("", name))
