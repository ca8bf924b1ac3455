"""One result a call: where a log holds two, they stay on one side."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message


def uniqueness(messages: Sequence[Message]) -> set[int]:
    """Cuts that do not stand between two results of one call."""
    where: dict[str, list[int]] = {}
    for i, message in enumerate(messages):
        for piece in message:
            if piece.block.get("type") == "tool_result":
                where.setdefault(piece.block.get("tool_use_id", ""), []).append(i)
    unsafe = {cut for places in where.values() for cut in range(places[0] + 1, places[-1] + 1)}
    return set(range(len(messages) + 1)) - unsafe
