"""The parallel calls of one answer stay together, even where an agent wrote them as several rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message


def batches(messages: Sequence[Message]) -> set[int]:
    """Cuts that do not stand between two adjacent assistant messages with calls, nor between the results of one batch."""
    safe = {0, len(messages)}
    before: set[str] = set()
    for i, message in enumerate(messages):
        now = {p.block.get("type", "") for p in message}
        answering = "tool_result" in before and "tool_result" in now
        calling = "tool_use" in before and message[0].role == messages[i - 1][0].role == "assistant"
        if not answering and not calling:
            safe.add(i)
        before = now
    return safe
