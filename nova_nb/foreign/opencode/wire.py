"""opencode's messages as an OpenAI-compatible Chat body: the one form that was captured.

For Anthropic models the neutral messages are the body: their own form was not captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...projection.pieces import messages_of
from ..calls import Item, pieces_of
from ..common import Json
from ..words import compact


def body_of(provider: str, model: str | None, items: Sequence[Item], system: Sequence[str], old: bool) -> Json:
    """The request body as far as it is known."""
    body: Json = {} if model is None else {"model": model}
    messages = messages_of(pieces_of(items))
    if "anthropic" in provider:
        blocks = [{"type": "text", "text": text} for text in system]
        return {**body, **({"system": blocks} if blocks else {}), "messages": messages}
    first = [{"role": "system", "content": text} for text in system]
    return {**body, "messages": first + [m for message in messages for m in _chat(message)]}


def _chat(message: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = message["content"]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if results:
        return [{"role": "tool", "tool_call_id": b["tool_use_id"], "content": _plain(b["content"])} for b in results]
    if message["role"] == "user":
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        if len(texts) == len(blocks) == 1:
            return [{"role": "user", "content": texts[0]}]
        return [{"role": "user", "content": blocks}]
    out: dict[str, Any] = {"role": "assistant", "content": "".join(b["text"] for b in blocks if b.get("type") == "text")}
    thoughts = "".join(b["thinking"] for b in blocks if b.get("type") == "thinking")
    if thoughts:
        out["reasoning_content"] = thoughts
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    if calls:
        out["tool_calls"] = [
            {"id": b["id"], "type": "function", "function": {"name": b["name"], "arguments": compact(b["input"])}}
            for b in calls
        ]
    return [out]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(b.get("text", "") for b in content)
