"""What each stage did to a request, or why it did nothing (R1.5).

Knows: the shape of one entry. Entries are kept in `RequestSent.meta["ledger"]` as plain data.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stage at one step. Tokens are estimates.

    >>> Entry("reclaim", why="the cache is hot and the window does not press").fired
    False
    """

    stage: str
    """"spill" | "reclaim" | "clip" | "fold" | "compaction" | "overflow" """
    fired: bool = False
    rule: str = ""
    why: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    touched: int = 0
    """pieces that look different now"""
    recoverable: bool = True
    """whether the originals are still on disk"""
    layer: str = "projection"
    """the history that changed: "projection", "boundary" (the chain starts anew) or "artifact" """
    lost_prefix_tokens: int = 0
    """tokens of cached prefix that the change invalidates; they are written to the cache again"""

    def plain(self) -> dict[str, Any]:
        """For `RequestSent.meta`."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data
