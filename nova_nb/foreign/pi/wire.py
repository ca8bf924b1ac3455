"""pi's messages in the words of the three APIs it speaks, and its system prompt.

Knows: how pi writes Anthropic Messages and OpenAI Chat bodies (both measured) and Responses bodies
(read in its source, not measured). Does not know how the items were chosen (`context`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...history.events import Block
from ...projection.pieces import messages_of
from ..calls import Item, pieces_of
from ..common import Json, as_dict, as_list, as_str, text_block
from .entries import Entry

Message = dict[str, Any]


def prompt_of(path: list[Entry]) -> tuple[list[Block] | None, list[Json] | None]:
    """System prompt and tools at the end of a path; None before pi wrote them down (1.x)."""
    sections: dict[str, str] = {}
    tools: dict[str, Json] = {}
    known = False
    for entry in path:
        whole = entry.kind == "compaction"
        message = as_dict(entry.data.get("systemMessage" if whole else "message"))
        if message.get("role") != "system":
            continue
        known = True
        if whole:
            sections, tools = {}, {}
        if as_str(message.get("content")):
            sections[""] = message["content"]
        for name, text in as_dict(message.get("sections")).items():
            if isinstance(text, str):
                sections[name] = text
            else:
                sections.pop(name, None)
        for name in as_list(message.get("toolsRemoved")):
            tools.pop(name, None) if isinstance(name, str) else None
        for tool in as_list(message.get("toolsAdded")):
            if as_str(as_dict(tool).get("name")):
                tools[tool["name"]] = _schema(tool)
    if not known:
        return None, None
    return [text_block("\n\n".join(sections.values()))], list(tools.values())


def _schema(tool: Json) -> Json:
    return {
        "name": tool["name"],
        "description": as_str(tool.get("description")),
        "input_schema": as_dict(tool.get("parameters")),
    }


def body_of(api: str, model: str | None, items: Sequence[Item], system: list[Block] | None, tools: list[Json] | None) -> Json:
    """The request body as far as it is known; an API that is not known gets the neutral messages."""
    body: Json = {} if model is None else {"model": model}
    messages = messages_of(pieces_of(items))
    text = system[0]["text"] if system else None
    if api == "openai-completions":
        first: list[Message] = [] if text is None else [{"role": "system", "content": text}]
        return {**body, "messages": first + [m for message in messages for m in _chat(message)]}
    if api in ("openai-responses", "azure-openai-responses", "openai-codex-responses"):
        start: list[Message] = [] if text is None else [{"role": "developer", "content": text}]
        return {**body, "input": start + [item for message in messages for item in _responses(message)]}
    if system is not None:
        body["system"] = system
    if tools is not None:
        body["tools"] = tools
    return {**body, "messages": [{**m, "content": [_anthropic(b) for b in m["content"]]} for m in messages]}


def _anthropic(block: Block) -> Block:
    if block.get("type") == "tool_result":
        return {"is_error": False, **block}
    if block.get("type") == "thinking" and "signature" not in block:
        return text_block(block["thinking"])
    return block


def _chat(message: Message) -> list[Message]:
    blocks = message["content"]
    results = [b for b in blocks if b.get("type") == "tool_result"]
    if results:
        return [{"role": "tool", "content": _plain(b["content"]), "tool_call_id": b["tool_use_id"]} for b in results]
    if message["role"] == "user":
        return [{"role": "user", "content": [b if b.get("type") == "text" else _image(b) for b in blocks]}]
    text = "".join(b["text"] for b in blocks if b.get("type") == "text")
    calls = [b for b in blocks if b.get("type") == "tool_use"]
    out: Message = {"role": "assistant", "content": text or None}
    for block in blocks:
        if block.get("type") == "thinking" and block.get("signature"):
            out[block["signature"]] = block["thinking"]
    if calls:
        out["tool_calls"] = [
            {"id": b["id"], "type": "function", "function": {"name": b["name"], "arguments": _json(b["input"])}} for b in calls
        ]
    return [out]


def _responses(message: Message) -> list[Message]:
    """Items of the Responses API. The log's call id is `call_id|item_id`."""
    out: list[Message] = []
    role = message["role"]
    for block in message["content"]:
        kind = block.get("type")
        call, _, item = as_str(block.get("id") or block.get("tool_use_id")).partition("|")
        if kind == "tool_use":
            id = {"id": item} if item else {}
            out.append(
                {"type": "function_call", **id, "call_id": call, "name": block["name"], "arguments": _json(block["input"])}
            )
        elif kind == "tool_result":
            out.append({"type": "function_call_output", "call_id": call, "output": _plain(block["content"])})
        elif kind == "thinking":
            out.append(as_dict(_decoded(as_str(block.get("signature")))) or {"type": "reasoning", "summary": []})
        elif role == "assistant":
            content = [{"type": "output_text", "text": as_str(block.get("text")), "annotations": []}]
            out.append({"type": "message", "role": "assistant", "content": content, "status": "completed"})
        else:
            out.append({"role": role, "content": [{"type": "input_text", "text": as_str(block.get("text"))}]})
    return out


def _image(block: Block) -> Block:
    source = as_dict(block.get("source"))
    url = f"data:{as_str(source.get('media_type'))};base64,{as_str(source.get('data'))}"
    return {"type": "image_url", "image_url": {"url": url}}


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(as_str(b.get("text")) for b in content if b.get("type") == "text")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
