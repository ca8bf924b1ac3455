"""What a projection must know of the model that it is for.

Knows: a handful of facts about a model. Does not know any provider; each provider's module fills
these in, with the source of each figure.
"""

from __future__ import annotations

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What a projection must know of the model it is for. Sources stand in each provider's module."""

    window_tokens: int = 200_000
    max_output_tokens: int = 32_000
    prefix_check: bool = False
    """earlier turns must stay unchanged once thinking was produced on them"""
    server_edits: bool = False
    """the provider can clear tool results and compact on its side"""
    cache_breakpoints: int = 4
    cache_min_tokens: int = 1_024
