"""Replies kept by the request that they answer: record once, replay for ever.

Knows: the key of a request (a hash of what the model sees) and a JSON Lines file of replies. Does not
know any provider; it wraps one, or none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ModelUnavailable
from .base import Capabilities, Delta, Model, Reply
from .prompt_cache import canonical, unmarked

SEEN = ("model", "system", "tools", "messages", "max_tokens", "tool_choice", "thinking", "output_config")
"""The parts of a body that decide an answer."""


class Entry(msgspec.Struct, frozen=True):
    """One line of a recording."""

    request: str
    reply: Reply


class RecordedModel:
    """Answers from a recording; what is not in it goes to `model`, and its reply is added.

    With no `model` nothing is sent: a request that the recording does not hold raises ModelUnavailable.
    Requests are told apart by content, cache marks aside, so a replay is true only for the same bytes.

    >>> import asyncio, tempfile
    >>> from nova_nb.models.offline import OfflineModel
    >>> file, body = tempfile.mktemp(), {"messages": [{"role": "user", "content": "Use pnpm, not npm."}]}
    >>> asyncio.run(RecordedModel(file, OfflineModel()).send(body)) == asyncio.run(RecordedModel(file).send(body))
    True
    """

    provider = "recorded"

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None) -> None:
        self.path = Path(path)
        self.model = model
        self.name = model.name if model else "recorded"
        self.capabilities = model.capabilities if model else Capabilities()
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        entries = (msgspec.json.decode(line, type=Entry) for line in lines if line)
        self._replies: dict[str, Reply] = {entry.request: entry.reply for entry in entries}

    async def send(self, body: dict[str, Any], on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """The recorded reply, or the model's, which is then recorded."""
        key = key_of(body)
        reply = self._replies.get(key)
        if reply is not None:
            for block in reply.content if on_delta else []:
                if block.get("type") in ("text", "tool_use") and on_delta:
                    on_delta(Delta(block["type"], block.get("text") or block.get("name") or ""))
            return reply
        if self.model is None:
            raise ModelUnavailable(f"{self.path} holds no reply to this request ({key[:12]}…); record it with model=")
        reply = await self.model.send(body, on_delta)
        self._replies[key] = reply
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(Entry(key, reply)) + b"\n")
        return reply

    def __repr__(self) -> str:
        return f"RecordedModel({str(self.path)!r}, {len(self._replies)} replies)"


def key_of(body: dict[str, Any]) -> str:
    """SHA-256 of what the model sees of a request, in hex."""
    return hashlib.sha256(canonical(unmarked({k: body[k] for k in SEEN if k in body}))).hexdigest()
