"""The rows of a Claude Code transcript, typed.

Knows: the fields that the reading rules need, and how a row of any version, or of none, becomes
one. Fields that no rule reads are not decoded (a row's own JSON can be read again with
`read.raw`). Does not know what rows mean together.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...history.events import Usage


class RawUsage(msgspec.Struct, gc=False):
    """`message.usage`; the four parts never overlap (formats of 1.0 to 2.1.332)."""

    input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int | None = 0

    def normalised(self) -> Usage:
        return Usage(
            self.input_tokens or 0,
            self.output_tokens or 0,
            self.cache_read_input_tokens or 0,
            self.cache_creation_input_tokens or 0,
        )


class Message(msgspec.Struct, gc=False):
    """`message` of a user or assistant row. `content` is a string or a list of blocks.

    Neither it nor `Row` can be part of a reference cycle, so the collector need not look at them.
    """

    role: str = ""
    content: Any = None
    id: str | None = None
    model: str | None = None
    usage: RawUsage | None = None
    stop_reason: str | None = None


class Row(msgspec.Struct, gc=False, rename={
    "parent": "parentUuid", "logical": "logicalParentUuid", "sidechain": "isSidechain", "hidden": "isMeta",
    "summary": "isCompactSummary", "api_error": "isApiErrorMessage", "at": "timestamp", "session": "sessionId",
    "agent": "agentId", "source_row": "sourceToolAssistantUUID", "source_call": "sourceToolUseID", "request": "requestRef",
}):  # fmt: skip
    """One record. Rows without `uuid` are no links of the chain."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent: str | None = None
    logical: str | None = None
    sidechain: bool | None = False
    hidden: bool | None = False
    summary: bool | None = False
    api_error: bool | None = False
    at: str | None = ""
    session: str | None = None
    version: str | None = None
    cwd: str | None = None
    agent: str | None = None
    source_row: str | None = None
    """uuid of the assistant row whose call this result answers"""
    source_call: str | None = None
    """tool_use id that a hidden row was put in for"""
    request: str | None = None
    message: Message | None = None

    @property
    def speaks(self) -> bool:
        """Whether it is a conversation record: a user or assistant row with a message."""
        return self.message is not None and self.uuid is not None and (self.type == "user" or self.type == "assistant")


decode = msgspec.json.Decoder(Row).decode
"""One line's bytes as a Row. Raises a ValueError where the line is not exactly one row of the known types."""

plain = msgspec.json.Decoder().decode
"""One line's bytes as plain JSON."""


def accept(value: Any) -> Row | None:
    """A row from plain JSON whose fields may have any type; None for a value that is no record of a transcript."""
    if not isinstance(value, dict) or not (isinstance(value.get("type"), str) or isinstance(value.get("uuid"), str)):
        return None
    try:
        return msgspec.convert(value, Row)
    except (msgspec.ValidationError, RecursionError):
        pass
    row = Row()
    for name, key in _KEYS.items():
        if isinstance(value.get(key), str):
            setattr(row, name, value[key])
    for name, key in _FLAGS.items():
        setattr(row, name, value.get(key) is True)
    message = value.get("message")
    if isinstance(message, dict):
        texts = {key: message[key] for key in ("role", "id", "model", "stop_reason") if isinstance(message.get(key), str)}
        usage = message.get("usage")
        counts = (
            {k: v for k, v in usage.items() if k in RawUsage.__struct_fields__ and isinstance(v, int)}
            if isinstance(usage, dict)
            else None
        )
        row.message = Message(**texts, content=message.get("content"), usage=None if counts is None else RawUsage(**counts))
    return row


_NAMES = dict(zip(Row.__struct_fields__, Row.__struct_encode_fields__, strict=True))
_FLAGS = {name: _NAMES[name] for name in ("sidechain", "hidden", "summary", "api_error")}
_KEYS = {name: key for name, key in _NAMES.items() if name not in _FLAGS and name != "message"}


_TEXTS = {
    "text": ("text",),
    "thinking": ("thinking",),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}
"""Fields of each type of block that are texts; a reader of blocks may rely on it."""


def blocks(content: Any) -> list[dict[str, Any]]:
    """A message's content as a list of blocks: a string is one text block; what is no block becomes a text.

    >>> blocks("hello")
    [{'type': 'text', 'text': 'hello'}]
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return content if all(map(_sound, content)) else [_mended(block) for block in content]


def _sound(block: Any) -> bool:
    if type(block) is not dict:
        return False
    kind = block.get("type")
    if type(kind) is not str:
        return False
    if kind == "tool_result":
        inner = block.get("content", "")
        if type(inner) is not str and not (type(inner) is list and all(map(_sound, inner))):
            return False
    return all(type(block.get(field)) is str for field in _TEXTS.get(kind, ()))


def _mended(block: Any) -> dict[str, Any]:
    """A block whose texts are texts, whatever stood there."""
    if not isinstance(block, dict):
        return {"type": "text", "text": _as_text(block)}
    mended: dict[str, Any] = {**block, "type": _as_text(block.get("type", "unknown"))}
    for field in _TEXTS.get(mended["type"], ()):
        mended[field] = _as_text(mended.get(field))
    if mended["type"] == "tool_result" and not isinstance(mended.get("content", ""), str):
        inner = mended["content"]
        mended["content"] = [_mended(part) for part in inner] if isinstance(inner, list) else _as_text(inner)
    return mended


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
