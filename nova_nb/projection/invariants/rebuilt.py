"""Rebuilt context stays whole: a summary and its attachment are never parted."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message


def rebuilt(messages: Sequence[Message]) -> set[int]:
    """Cuts that are not inside what a compaction put at the start."""
    first = 0
    while first < len(messages) and messages[first][0].state in ("summary", "attachment"):
        first += 1
    return {0, *range(first, len(messages) + 1)}
