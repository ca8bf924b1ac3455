"""LangGraph's stored values as plain data, without importing a class that they name.

Knows: MessagePack with LangGraph's extension codes (a packed [module, class, arguments, method]
each), its older JSON constructors, and how a LangChain message is said to a chat provider.
Pickles are never loaded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from . import words
from .documents import load, scrubbed

_OPAQUE = 6
"""Extension code of numpy arrays: bytes, kept as their length."""


def decode(kind: Any, data: Any) -> tuple[Any, str]:
    """The value, and why there is none.

    >>> decode("json", b'{"id": ["langchain", "HumanMessage"], "lc": 1, "kwargs": {"content": "hi"}}')
    ({'content': 'hi', 'type': 'human'}, '')
    >>> decode("pickle", b"...")[1]
    'a pickle is never loaded'
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    if not isinstance(data, bytes):
        return None, "no bytes"
    if kind == "pickle":
        return None, "a pickle is never loaded"
    if kind in ("null", "bytes", "bytearray"):
        return None, ""
    try:
        if kind == "json":
            value, damage = load(data)
            return plain(value), damage[0].message if damage else ""
        return plain(scrubbed(msgspec.msgpack.decode(data, ext_hook=_extension))), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError) as error:
        return None, str(error) or type(error).__name__


def _extension(code: int, data: memoryview) -> Any:
    if code == _OPAQUE:
        return {"numpy": len(data)}
    value = msgspec.msgpack.decode(bytes(data), ext_hook=_extension)
    if not isinstance(value, list) or len(value) < 3:
        return value
    arguments = value[2]
    if isinstance(arguments, dict):
        return _typed(arguments, value[1])
    return arguments[0] if isinstance(arguments, list) and len(arguments) == 1 else arguments


def plain(value: Any) -> Any:
    """JSON constructors as their arguments."""
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        if value.get("lc") in (1, 2) and isinstance(value.get("kwargs"), dict):
            path = value.get("id")
            return _typed(plain(value["kwargs"]), path[-1] if isinstance(path, list) and path else "")
        return {k if isinstance(k, str) else str(k): plain(v) for k, v in value.items()}
    return value


_TYPES = {
    "HumanMessage": "human",
    "HumanMessageChunk": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "RemoveMessage": "remove",
}


def _typed(arguments: dict[str, Any], name: Any) -> dict[str, Any]:
    """Arguments of a message with its type, which old ones have only in their class name."""
    if "type" not in arguments and isinstance(name, str) and name in _TYPES:
        return {**arguments, "type": _TYPES[name]}
    return arguments


_ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "system": "system",
    "developer": "system",
}


def wire_of(message: dict[str, Any]) -> dict[str, Any]:
    """A LangChain message as a chat message."""
    kind = words.word(message.get("type") or message.get("role"))
    role = _ROLES.get(kind, kind or "user")
    content = message.get("content")
    if role == "tool":
        return {"role": "tool", "content": content, "tool_call_id": words.word(message.get("tool_call_id"))}
    wire: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        calls = (
            [c for c in message.get("tool_calls") or [] if isinstance(c, dict)]
            if isinstance(message.get("tool_calls"), list)
            else []
        )
        bad = message.get("invalid_tool_calls")
        calls += [c for c in bad if isinstance(c, dict)] if isinstance(bad, list) else []
        if calls:
            wire["content"] = content or None
            wire["tool_calls"] = [
                {
                    "type": "function",
                    "id": words.word(c.get("id")),
                    "function": {"name": words.word(c.get("name")), "arguments": _said(c)},
                }
                for c in calls
            ]
    elif isinstance(message.get("name"), str):
        wire["name"] = message["name"]
    return wire


def _said(call: dict[str, Any]) -> str:
    arguments = call.get("args")
    return arguments if isinstance(arguments, str) else words.compact(arguments if arguments is not None else {})
