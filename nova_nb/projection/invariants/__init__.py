"""Where a history may be cut: the sets of several small properties, intersected (law 8, R4.8).

Knows: which properties there are. Each module here holds one, as a function from the messages of a
request to the cuts it allows. A cut `i` parts `messages[:i]` from `messages[i:]`; 0 and
`len(messages)` are cuts as well. Every stage that removes, folds or summarises asks `safe_cuts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..repair import Message
from .batches import batches
from .matching import matching
from .rebuilt import rebuilt
from .thinking import thinking
from .uniqueness import uniqueness

Property = Callable[[Sequence[Message]], set[int]]

PROTOCOL: tuple[Property, ...] = (matching, batches, uniqueness, rebuilt)
"""What every provider refuses when it is broken."""

PROPERTIES: tuple[Property, ...] = (*PROTOCOL, thinking)
"""All of them. A stage that removes the thinking of what it keeps may leave `thinking` out."""


def safe_cuts(messages: Sequence[Message], properties: Sequence[Property] = PROPERTIES, since: int = 0) -> list[int]:
    """Cuts from `since` on that every property allows, in order.

    What stands before the person's last words up to `since` is not read: there no unit of a projected history
    is open, because repair has made it whole.

    >>> safe_cuts([])
    [0]
    """
    start = next((i for i in range(min(since, len(messages) - 1), 0, -1) if asks(messages[i])), 0)
    part = messages[start:]
    allowed = set(range(since - start, len(part) + 1))
    for holds in properties:
        allowed &= holds(part)
    return sorted(start + cut for cut in allowed)


def asks(message: Message) -> bool:
    """Whether a person speaks in this message, and nothing else is in it: always a safe cut before it."""
    return all(p.role == "user" and p.state == "whole" and p.block.get("type") == "text" for p in message)


__all__ = [
    "PROPERTIES",
    "PROTOCOL",
    "Property",
    "asks",
    "batches",
    "matching",
    "rebuilt",
    "safe_cuts",
    "thinking",
    "uniqueness",
]
