"""A call and its result stay on one side."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message


def matching(messages: Sequence[Message]) -> set[int]:
    """Cuts at which no call before the cut has its result after it, nor a result its call."""
    open_calls: set[str] = set()
    safe = {0}
    for i, message in enumerate(messages):
        for piece in message:
            if piece.block.get("type") == "tool_use":
                open_calls.add(piece.block.get("id", ""))
            elif piece.block.get("type") == "tool_result":
                open_calls.discard(piece.block.get("tool_use_id", ""))
        if not open_calls:
            safe.add(i + 1)
    return safe
