"""What the Messages API refuses: the protocol of calls and results, and the prefix check on thinking blocks."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="deterministic")
BINDING_BETA = "thinking-binding-controls-2026-08-01"


class Refused(Exception):
    """Answered with 400."""


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_protocol(body: dict[str, Any]) -> None:
    """Raise Refused for what the API would not take, in words close to its own."""
    messages = body.get("messages") or []
    if not messages:
        raise Refused("messages: at least one message is required")
    if "max_tokens" not in body:
        raise Refused("max_tokens: Field required")
    if messages[0]["role"] != "user":
        raise Refused("messages: first message must use the user role")
    used: set[str] = set()
    open_calls: list[str] = []
    for i, message in enumerate(messages):
        blocks = blocks_of(message)
        if not blocks and i < len(messages) - 1:
            raise Refused(
                f"messages.{i}: all messages must have non-empty content except for the optional final assistant message"
            )
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if missing := [c for c in open_calls if c not in answered]:
            lost = ", ".join(missing)
            raise Refused(f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {lost}")
        if stray := [a for a in answered if a not in open_calls]:
            raise Refused(f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(stray)}")
        if len(set(answered)) < len(answered):
            raise Refused(f"messages.{i}: each tool_use must have a single result")
        for j, block in enumerate(blocks):
            if block["type"] == "text" and not block["text"].strip():
                raise Refused(f"messages.{i}.content.{j}: text content blocks must be non-empty")
        calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if calls and message["role"] != "assistant":
            raise Refused(f"messages.{i}: `tool_use` blocks can only be in `assistant` messages")
        if used & set(calls) or len(set(calls)) < len(calls):
            raise Refused(f"messages.{i}: `tool_use` ids must be unique")
        used |= set(calls)
        open_calls = calls
    if open_calls:
        raise Refused(
            f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks: {', '.join(open_calls)}"
        )


def signed_thinking(body: dict[str, Any]) -> dict[str, Any]:
    """A thinking block whose signature binds it to all of the request, and to the thinking before it."""
    messages = body["messages"]
    before = [b for m in messages for b in blocks_of(m) if b["type"] == "thinking"]
    last = _digest(before[-1]["signature"]) if before else ""
    text = f"I look at {len(messages)} messages."
    return {"type": "thinking", "thinking": text, "signature": f"{_prefix(body, len(messages), [])}.{last}.{_digest(text)}"}


def check_prefix(body: dict[str, Any], beta: str, mode: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body as the model gets it and the entries of `input_transformations`; raises Refused where the mode is "error"
    and the request does not ask for `drop_block`."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    if binding and BINDING_BETA not in beta:
        raise Refused(f"thinking.block_binding: Extra inputs are not permitted (needs the beta header {BINDING_BETA})")
    if mode is None:
        return body, []
    drop = binding.get("prefix_mismatch_behavior") == "drop_block"
    bad: list[tuple[int, int]] = []
    last = ""
    for i, message in enumerate(body["messages"]):
        kept: list[dict[str, Any]] = []
        for j, block in enumerate(blocks_of(message)):
            if block["type"] != "thinking":
                kept.append(block)
                continue
            prefix, previous, own = [*block.get("signature", "").split("."), "", ""][:3]
            whole = prefix == _prefix(body, i, kept) and own == _digest(block["thinking"])
            in_order = not last or previous == _digest(last)
            # Enforced, one failure takes every later block with it; reported only, each block stands for itself.
            if not (whole and in_order) or (bad and mode == "error"):
                bad.append((i, j))
            last = block.get("signature", "")
    if bad and mode == "error" and not drop:
        i, j = bad[0]
        raise Refused(
            f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block. "
            "The block is bound to a different conversation. "
            'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        )
    kind = "thinking_dropped" if mode == "error" else "thinking_mismatch_allowed"
    changes = [{"type": kind, "path": f"messages.{i}.content.{j}", "reason": "prefix_binding_mismatch"} for i, j in bad]
    if mode != "error" or not bad:
        return body, changes
    messages = [
        {**m, "content": [b for j, b in enumerate(blocks_of(m)) if (i, j) not in bad]} for i, m in enumerate(body["messages"])
    ]
    return {**body, "messages": messages}, changes


def _prefix(body: dict[str, Any], message: int, before: list[dict[str, Any]]) -> str:
    """Digest of what stands before a block: system, tools, earlier messages, blocks before it; without thinking and marks."""
    earlier = [{"role": m["role"], "content": _bare(blocks_of(m))} for m in body["messages"][:message]]
    return _digest([_bare(body.get("system") or []), _bare(body.get("tools") or []), earlier, _bare(before)])


def _bare(blocks: Any) -> Any:
    if not isinstance(blocks, list):
        return blocks
    return [{k: _bare(v) for k, v in b.items() if k != "cache_control"} for b in blocks if b.get("type") != "thinking"]


def _digest(value: Any) -> str:
    return hashlib.sha256(_encoder.encode(value)).hexdigest()[:24]
