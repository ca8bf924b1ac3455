"""The parallel calls of one answer stay together, even where an agent wrote them as several rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message


def batches(messages: Sequence[Message]) -> set[int]:
    """Cuts that do not stand between two adjacent assistant messages with calls, nor between the results of one batch."""
    safe = {0, len(messages)}
    for i in range(1, len(messages)):
        before, after = messages[i - 1], messages[i]
        calling = before[0].role == after[0].role == "assistant" and any(p.block.get("type") == "tool_use" for p in before)
        answering = all(_is_result(m) for m in (before, after))
        if not calling and not answering:
            safe.add(i)
    return safe


def _is_result(message: Message) -> bool:
    return any(p.block.get("type") == "tool_result" for p in message)
