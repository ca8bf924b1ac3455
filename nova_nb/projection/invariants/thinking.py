"""Thinking stays with its tool loop: a provider that checks it wants the whole loop or none of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..repair import Message

KINDS = ("thinking", "redacted_thinking")


def thinking(messages: Sequence[Message]) -> set[int]:
    """Cuts that are not inside a tool loop that holds thinking.

    A loop runs from an assistant message with calls to the last message before a user message that is no result.
    """
    safe = {0}
    held = False
    for i, message in enumerate(messages):
        asks = message[0].role == "user" and not any(p.block.get("type") == "tool_result" for p in message)
        if asks:
            held = False
            safe.add(i)
        held = held or any(p.block.get("type") in KINDS for p in message)
        if not held or i + 1 == len(messages):
            safe.add(i + 1)
    return safe
