"""The only reader of time and randomness.

Knows: how to make an id and how to read the clock. Does not know what they are for.
Everything that needs either takes a `Source` argument, so a test, a notebook that must
be reproducible, or a replay passes `Fixed()` and gets the same log byte for byte.
"""

from __future__ import annotations

import itertools
import os
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Source(Protocol):
    """A clock and a supply of ids."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""
        ...

    def new_id(self, kind: str = "m") -> str:
        """A fresh id that starts with `kind`, unique within a log."""
        ...


class System:
    """Wall clock and random ids (48 random bits after a millisecond stamp, so ids sort by time)."""

    def now(self) -> float:
        return time.time()

    def new_id(self, kind: str = "m") -> str:
        return f"{kind}_{int(time.time() * 1000):011x}{os.urandom(6).hex()}"


class Fixed:
    """A clock that advances by `tick` seconds a reading, and ids that count: for tests and lessons.

    >>> source = Fixed()
    >>> source.new_id("m"), source.new_id("m"), source.new_id("c")
    ('m1', 'm2', 'c1')
    """

    def __init__(self, start: float = 1_767_225_600.0, tick: float = 1.0) -> None:
        self.time = start
        self.tick = tick
        self._counts: dict[str, itertools.count[int]] = {}

    def now(self) -> float:
        self.time += self.tick
        return self.time

    def new_id(self, kind: str = "m") -> str:
        return f"{kind}{next(self._counts.setdefault(kind, itertools.count(1)))}"


def iso(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC with milliseconds: '2026-01-01T00:00:00.000Z'."""
    second, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_second(second)}.{micro // 1000:03d}Z"


@lru_cache(2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
