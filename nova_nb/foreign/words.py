"""Providers' words as neutral blocks: OpenAI Chat, OpenAI Responses, Anthropic Messages.

Knows: how each of the three says text, thinking, images, calls and results, and how each counts
tokens. Does not know sessions. A value of an unexpected type never raises; what cannot be read as
a block stays in the provider's own body.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..history.events import Block, Usage
from .common import as_int, parse_object
from .common import text_block as text_block

Message = dict[str, Any]

count = as_int


def blocks_of(content: Any) -> list[Block]:
    """Content of any provider as blocks: a string is one text, parts keep their order, unknown parts pass through.

    >>> blocks_of([{"type": "input_text", "text": "a"}, "b"])
    [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]
    """
    if isinstance(content, str):
        return [text_block(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [text_block(compact(content))]
    out: list[Block] = []
    for part in content:
        if isinstance(part, str):
            out.append(text_block(part))
        elif isinstance(part, dict):
            out.append(_part(part))
    return out


def _part(part: dict[str, Any]) -> Block:
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text", "summary_text", "reasoning_text") and isinstance(part.get("text"), str):
        return text_block(part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return text_block(part["refusal"])
    if kind in ("image_url", "input_image", "image"):
        return {**part, "type": "image"}
    if kind == "tool_result" and part.get("content") is None:
        part = {**part, "content": ""}
    return part if isinstance(kind, str) and _well_formed(kind, part) else {"type": "unknown", "value": part}


_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_use_id": str, "content": (str, list)},
}


def _well_formed(kind: str, part: dict[str, Any]) -> bool:
    """Whether a block of a neutral type has the fields that everyone reads of it."""
    fields = _FIELDS.get(kind, {})
    if kind == "tool_result" and isinstance(part.get("content"), list):
        parts_whole = all(isinstance(p, dict) and _well_formed(word(p.get("type")), p) for p in part["content"])
        return parts_whole and isinstance(part.get("tool_use_id"), str)
    return all(isinstance(part.get(name), wanted) for name, wanted in fields.items())


def text_of(content: Any) -> str:
    """The text of content, parts joined by line ends.

    >>> text_of([{"type": "text", "text": "a"}, {"type": "image"}])
    'a'
    """
    return "\n".join(block["text"] for block in blocks_of(content) if block.get("type") == "text")


def compact(value: Any) -> str:
    """A value as JSON in one line."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, UnicodeEncodeError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def arguments(raw: Any) -> Any:
    """A call's input: the JSON object that a string holds, else {"arguments": the string}.

    >>> arguments('{"a": 1}'), arguments("{broken"), arguments("")
    ({'a': 1}, {'arguments': '{broken'}, {})
    """
    if not isinstance(raw, str):
        return raw if isinstance(raw, dict) else {} if raw is None else {"arguments": raw}
    return parse_object(raw) if raw.strip() else {}


def tool_use(id: Any, name: Any, input: Any) -> Block:
    return {"type": "tool_use", "id": word(id), "name": word(name), "input": arguments(input)}


def tool_result(id: Any, content: Any, is_error: bool = False) -> Block:
    """A result; content stays a string where it is one."""
    body = content if isinstance(content, str) else blocks_of(content)
    block: Block = {"type": "tool_result", "tool_use_id": word(id), "content": body}
    return {**block, "is_error": True} if is_error else block


def word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def chat(message: Message) -> tuple[str, list[Block]]:
    """Role and blocks of a Chat Completions message; results are blocks of a user message.

    >>> chat({"role": "tool", "tool_call_id": "c1", "content": "ok"})
    ('user', [{'type': 'tool_result', 'tool_use_id': 'c1', 'content': 'ok'}])
    """
    role = word(message.get("role"))
    content = message.get("content")
    if role in ("tool", "function"):
        return "user", [tool_result(message.get("tool_call_id") or message.get("name"), content if content is not None else "")]
    blocks: list[Block] = []
    if role == "assistant":
        signed = message.get("thinking_blocks")
        thought = message.get("reasoning_content")
        if isinstance(signed, list) and signed:
            blocks += blocks_of([part for part in signed if isinstance(part, dict)])
        elif isinstance(thought, str) and thought:
            blocks.append({"type": "thinking", "thinking": thought})
    blocks += blocks_of(content)
    if role == "assistant":
        if isinstance(message.get("refusal"), str):
            blocks.append(text_block(message["refusal"]))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                function = call.get("function")
                of = function if isinstance(function, dict) else {"name": function, "arguments": call.get("arguments")}
                blocks.append(tool_use(call.get("id"), of.get("name"), of.get("arguments")))
    return {"developer": "system"}.get(role, role or "user"), blocks


def response_item(item: Message) -> tuple[str, list[Block]]:
    """Role and blocks of a Responses input item.

    >>> response_item({"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"})
    ('assistant', [{'type': 'tool_use', 'id': 'c', 'name': 'ls', 'input': {}}])
    """
    kind = item.get("type") or "message"
    if kind == "message":
        role = word(item.get("role")) or "user"
        return {"developer": "system"}.get(role, role), blocks_of(item.get("content"))
    if kind == "reasoning":
        thought = text_of(item.get("summary")) or text_of(item.get("content"))
        block: Block = {"type": "thinking", "thinking": thought}
        if isinstance(item.get("encrypted_content"), str):
            block["signature"] = item["encrypted_content"]
        return "assistant", [block]
    if kind.endswith("_call_output") if isinstance(kind, str) else False:
        output = item.get("output")
        return "user", [tool_result(item.get("call_id"), output if output is not None else "")]
    if kind == "function_call":
        return "assistant", [tool_use(item.get("call_id"), item.get("name"), item.get("arguments"))]
    if kind == "custom_tool_call":
        return "assistant", [tool_use(item.get("call_id"), item.get("name"), {"input": item.get("input")})]
    if isinstance(kind, str) and kind.endswith("_call"):
        rest = {k: v for k, v in item.items() if k not in ("id", "call_id", "type", "status", "output")}
        return "assistant", [tool_use(item.get("call_id") or item.get("id"), kind, item.get("action") or rest)]
    return "assistant", [{**item, "type": word(kind)}]


def anthropic(message: Message) -> tuple[str, list[Block]]:
    """Role and blocks of an Anthropic message: they are neutral already."""
    return word(message.get("role")) or "user", blocks_of(message.get("content"))


def gemini(content: Message) -> tuple[str, list[Block]]:
    """Role and blocks of a Gemini content; calls and results there may have no id, then the name stands for it.

    >>> gemini({"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]})
    ('assistant', [{'type': 'tool_use', 'id': 'ls', 'name': 'ls', 'input': {}}])
    """
    blocks: list[Block] = []
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else []:
        if not isinstance(part, dict):
            continue
        call, result = part.get("functionCall"), part.get("functionResponse")
        if isinstance(call, dict):
            blocks.append(tool_use(call.get("id") or call.get("name"), call.get("name"), call.get("args")))
        elif isinstance(result, dict):
            response = result.get("response")
            output = response.get("output") if isinstance(response, dict) and set(response) == {"output"} else None
            text = output if isinstance(output, str) else compact(response)
            blocks.append(tool_result(result.get("id") or result.get("name"), text))
        elif part.get("thought") is True and isinstance(part.get("text"), str):
            blocks.append({"type": "thinking", "thinking": part["text"]})
        elif isinstance(part.get("text"), str):
            blocks.append(text_block(part["text"]))
        else:
            blocks.append({"type": "image" if "inlineData" in part else "unknown", **part})
    return {"model": "assistant"}.get(word(content.get("role")), word(content.get("role")) or "user"), blocks


def _inner(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((raw[name] for name in names if isinstance(raw.get(name), dict)), {})


def usage(raw: Any) -> Usage | None:
    """Counts of any of the three providers (or LangChain), normalised; None when there are none.

    Anthropic counts input without the cache; OpenAI, LangChain and ATIF count it with the cache.

    >>> usage({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}}).input
    10
    >>> usage({"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}).context
    100
    """
    if not isinstance(raw, dict):
        return None
    total = count(raw.get("prompt_tokens", raw.get("input_tokens")))
    output = count(raw.get("completion_tokens", raw.get("output_tokens")))
    read, write = count(raw.get("cache_read_input_tokens")), count(raw.get("cache_creation_input_tokens"))
    if not total and not output and not read:
        return None
    if "prompt_tokens" not in raw and (read or write or "cache_read_input_tokens" in raw):
        return Usage(total, output, read, write)
    details = _inner(raw, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    read = (
        count(details.get("cached_tokens")) or count(details.get("cache_read")) or count(raw.get("cache_read_tokens")) or read
    )
    write = count(details.get("cache_creation")) or count(raw.get("cache_write_tokens")) or write
    return Usage(max(total - read - write, 0), output, read, write)
