"""How many tokens there are, and what they go to (R4.9).

Knows: the arithmetic `history = window - output reserve - system - tools - safety` and the
estimate of 3.5 characters a token for what no provider has counted. Does not know the pieces'
meaning beyond their category. All figures but a provider's usage are estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..settings import ContextSettings
from .pieces import Piece, block_chars

CATEGORIES = ("system", "tools", "memory", "summary", "person", "assistant", "tool_results")
"""What tokens go to, in the order in which they stand in a request."""

IMAGE_TOKENS = 1_600
"""Upper estimate for one image: Anthropic counts width x height / 750 and scales down above about 1.15 megapixels."""

_STATES = {"summary": "summary", "attachment": "summary", "folded": "summary", "memory": "memory", "reminder": "memory"}


class Budget(msgspec.Struct, frozen=True):
    """Tokens of one request by category, and the lines that matter. `used + free + reserve == window`
    unless the request is over the window (then `free` is negative).

    >>> Budget(window=200_000, reserve=22_000, system=3_000, tools=5_000).history
    170000
    """

    window: int
    reserve: int
    """kept free for the answer and for what the estimate misses"""
    system: int = 0
    tools: int = 0
    memory: int = 0
    summary: int = 0
    person: int = 0
    assistant: int = 0
    tool_results: int = 0
    soft: int = 0
    """tokens at which compaction is tried"""
    hard: int = 0
    """tokens at which compaction is forced"""
    anchored: bool = False
    """whether the total rests on a usage that a provider reported"""

    @property
    def used(self) -> int:
        return sum(getattr(self, name) for name in CATEGORIES)

    @property
    def free(self) -> int:
        return self.window - self.reserve - self.used

    @property
    def history(self) -> int:
        """Tokens the conversation may take: window - output reserve - system - tools - safety."""
        return self.window - self.reserve - self.system - self.tools

    @property
    def over(self) -> bool:
        """Whether the conversation takes more than `history`."""
        return self.free < 0


def category(piece: Piece) -> str:
    """What a piece's tokens go to.

    >>> category(Piece("k", "m", "assistant", {"type": "text", "text": "x"}, ("m",)))
    'assistant'
    """
    by_state = _STATES.get(piece.state)
    if by_state is not None:
        return by_state
    if piece.block.get("type") == "tool_result":
        return "tool_results"
    return "assistant" if piece.role == "assistant" else "person"


def piece_chars(piece: Piece, chars_per_token: float = 3.5) -> int:
    """Characters of a piece, an image taken as IMAGE_TOKENS worth of them."""
    if piece.block.get("type") in ("text", "tool_use"):
        return piece.chars
    return piece.chars + images(piece.block) * int(IMAGE_TOKENS * chars_per_token)


def chars_of(pieces: Sequence[Piece], chars_per_token: float) -> int:
    """Characters of several pieces, as `piece_chars` counts them."""
    seen = sum([images(p.block) for p in pieces if p.block.get("type") not in ("text", "tool_use")])
    return sum([p.chars for p in pieces]) + seen * int(IMAGE_TOKENS * chars_per_token)


def images(block: Mapping[str, Any]) -> int:
    """Images in a block, those inside a tool's result included."""
    if block.get("type") in ("image", "document"):
        return 1
    content = block.get("content")
    return sum(images(part) for part in content if isinstance(part, dict)) if isinstance(content, list) else 0


def estimate(chars: float, settings: ContextSettings) -> int:
    """Tokens of so many characters, rounded up.

    >>> estimate(35, ContextSettings()), estimate(36, ContextSettings())
    (10, 11)
    """
    return -int(-chars // settings.chars_per_token)


def message_tokens(message: Mapping[str, Any], settings: ContextSettings) -> int:
    """Estimated tokens of one neutral message."""
    blocks = message.get("content")
    if isinstance(blocks, str):
        return estimate(len(blocks), settings)
    return sum(estimate(block_chars(b), settings) + images(b) * IMAGE_TOKENS for b in blocks or [] if isinstance(b, dict))


def prompt_chars(parts: Any) -> int:
    """Characters of system blocks or tool schemas as they are sent."""
    return len(msgspec.json.encode(parts)) if parts else 0


def budget(
    chars: Mapping[str, float], settings: ContextSettings, tokens: int | None = None, window: int | None = None
) -> Budget:
    """A budget from characters by category.

    `tokens`, when a provider's usage is known, is the true total: the categories are scaled to it.
    `window` replaces the setting where the model's own window is smaller.
    """
    size = min(window or settings.window_tokens, settings.window_tokens)
    shrink = settings.window_tokens - size
    parts = {name: estimate(chars.get(name, 0), settings) for name in CATEGORIES}
    if tokens is not None and (total := sum(parts.values())):
        parts = {name: value * tokens // total for name, value in parts.items()}
        parts[max(parts, key=lambda name: parts[name])] += tokens - sum(parts.values())
    return Budget(
        window=size,
        reserve=settings.output_reserve_tokens + settings.safety_tokens,
        soft=settings.soft_line - shrink,
        hard=settings.hard_line - shrink,
        anchored=tokens is not None,
        **parts,
    )
