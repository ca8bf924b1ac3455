"""Gemini's words: the parts of a content, as neutral blocks, as they go out, and as a record's name.

Knows: text, functionCall, functionResponse and thought parts. Does not know sessions (`replay`).
"""

from __future__ import annotations

from typing import Any

from ...history.events import Block
from ..common import Json, as_dict, as_list, as_str, text_block
from ..words import compact, tool_result, tool_use

TOO_LARGE = "Output too large. Showing first "
SAVED = "For full output see: "
SNAPSHOT = "<state_snapshot>"
CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context for our chat.")


def parts_of(content: Any) -> list[Json]:
    """Content of a message as parts: a string is one text part."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    if isinstance(content, dict):
        return [content]
    return [part if isinstance(part, dict) else {"text": as_str(part)} for part in as_list(content) if part]


def model_parts(message: Json) -> list[Json]:
    """The parts of a model's turn: its own where it holds calls, else its text and the calls beside it."""
    parts = parts_of(message.get("content"))
    if any("functionCall" in part or "thought" in part for part in parts):
        return [part for part in parts if not part.get("thought")]
    return parts + [call_part(call) for call in calls_of(message)]


def calls_of(message: Json) -> list[Json]:
    return [as_dict(call) for call in as_list(message.get("toolCalls"))]


def call_part(call: Json) -> Json:
    return {"functionCall": {"id": as_str(call.get("id")), "name": as_str(call.get("name")), "args": as_dict(call.get("args"))}}


def result_parts(call: Json) -> list[Json]:
    """What a finished call sends back; a result that was kept as text is wrapped as the client wraps it."""
    result = call.get("result")
    if isinstance(result, list):
        return parts_of(result)
    if result in (None, ""):
        return []
    output = {"output": result if isinstance(result, str) else compact(result)}
    return [{"functionResponse": {"id": as_str(call.get("id")), "name": as_str(call.get("name")), "response": output}}]


def has_results(parts: list[Json]) -> bool:
    return any("functionResponse" in part for part in parts)


def signature(parts: list[Json]) -> tuple[str, ...]:
    """What tells a message from others whatever its id: its calls, the calls it answers, or its text."""
    out = []
    for part in parts:
        call, answer = as_dict(part.get("functionCall")), as_dict(part.get("functionResponse"))
        if call:
            out.append(f"call {bare_id(call) or compact(call)}")
        elif answer:
            out.append(f"result {bare_id(answer)}")
        elif not part.get("thought"):
            out.append(as_str(part.get("text")))
    return tuple(dict.fromkeys(out))


def bare_id(named: Json) -> str:
    """A call's id as it is sent: the log may put the tool's name before it.

    >>> bare_id({"id": "read_file__fc1", "name": "read_file"}), bare_id({"id": "fc1", "name": "read_file"})
    ('fc1', 'fc1')
    """
    return as_str(named.get("id")).removeprefix(f"{as_str(named.get('name'))}__")


def on_the_wire(part: Json) -> Json:
    """A part as it is sent, without signatures, which are in no file."""
    for kind in ("functionCall", "functionResponse"):
        named = as_dict(part.get(kind))
        if named:
            return {kind: {**named, **({"id": bare_id(named)} if named.get("id") else {})}}
    return {key: value for key, value in part.items() if key != "thoughtSignature"}


def block_of(part: Json) -> Block:
    call, answer = as_dict(part.get("functionCall")), as_dict(part.get("functionResponse"))
    if call:
        return tool_use(bare_id(call), call.get("name"), call.get("args"))
    if answer:
        response = as_dict(answer.get("response"))
        error = response.get("error")
        output = response.get("output", error)
        return tool_result(bare_id(answer), output if isinstance(output, str) else compact(response), error is not None)
    if part.get("thought"):
        return {"type": "thinking", "thinking": as_str(part.get("text"))}
    if "text" in part:
        return text_block(as_str(part.get("text")))
    return {"type": "image" if "inlineData" in part or "fileData" in part else "part", **part}


def state_of(block: Block) -> tuple[str, str, str | None]:
    """State, reason and original of a block on its own."""
    text = as_str(block.get("content", block.get("text")))
    if block.get("type") == "tool_result" and text.startswith(TOO_LARGE):
        return "preview", "cut by the tool", text.partition(SAVED)[2].partition("\n")[0].strip() or None
    if block.get("type") == "text" and text.startswith(CONTEXT):
        return "reminder", "put in by the client", None
    if block.get("type") == "text" and SNAPSHOT in text:
        return "summary", "compression", None
    return "whole", "", None
