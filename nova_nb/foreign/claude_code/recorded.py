"""Requests that the log itself holds: the `api-request` rows of the newest versions (seen in 2.1.332).

Knows: how those rows name messages by hash, each request as the tail of an earlier one. Does not
know how rows are worded; it is given the rebuilt messages, whose hashes mostly are the recorded ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...history.events import Block, Event, ForeignRow, MessageAppended
from ...projection.pieces import Piece, block_chars, messages_of
from .schema import blocks

_encoder = msgspec.json.Encoder(order="sorted")


def message_hash(message: dict[str, Any]) -> str:
    """SHA-256 of a message as compact JSON with sorted keys, cache marks left out, a string as one text block."""
    content = message.get("content")
    unmarked = _unmarked([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return hashlib.sha256(_encoder.encode({"role": message.get("role"), "content": unmarked})).hexdigest()


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(part) for part in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Sent:
    """One recorded request: its row, and the hashes of its messages."""

    row: ForeignRow
    hashes: tuple[str, ...]
    whole: bool
    """False when the request it builds on is in no row"""


@dataclass
class Recorded:
    """All recorded requests of a file, and the messages and prompts that its rows hold for them."""

    sent: dict[str, Sent] = field(default_factory=dict)
    blobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def messages(self, sent: Sent, rebuilt: list[dict[str, Any]], rows: list[Event]) -> list[dict[str, Any]] | None:
        """The messages of a recorded request; None where one of its hashes stands for nothing in the file.

        A hash without a blob is that of a rebuilt message, or of plain rows (`rows` are those of the request): where
        reminders are messages of role `system`, the user messages beside them hold none.
        """
        if not sent.whole:
            return None
        known = {message_hash(message): message for message in rebuilt}
        if not all(h in self.blobs or h in known for h in sent.hashes):
            known |= {message_hash(message): message for message in plain_messages(rows)}
        found = [self.blobs.get(h) or known.get(h) for h in sent.hashes]
        return [m for m in found if m is not None] if all(found) else None


def recorded(events: list[Event]) -> Recorded:
    """The recorded requests of a file's events."""
    out = Recorded()
    for event in events:
        if not isinstance(event, ForeignRow) or not isinstance(event.data, dict):
            continue
        data = event.data
        if event.kind == "api-request-blob":
            message = data.get("message")
            if isinstance(message, dict) and isinstance(data.get("hash"), str):
                out.blobs[data["hash"]] = {"role": message.get("role"), "content": blocks(message.get("content"))}
        elif event.kind == "api-request-shape":
            if isinstance(data.get("shape"), dict) and isinstance(data.get("shapeHash"), str):
                out.shapes[data["shapeHash"]] = data["shape"]
        elif event.kind == "api-request" and isinstance(data.get("id"), str):
            base = out.sent.get(data["base"]) if isinstance(data.get("base"), str) else None
            keep, tail = data.get("keep"), data.get("tail")
            head = base.hashes[:keep] if base is not None and isinstance(keep, int) else ()
            hashes = (*head, *(h for h in tail if isinstance(h, str))) if isinstance(tail, list) else head
            whole = isinstance(tail, list) and (not data.get("base") or (base is not None and base.whole))
            out.sent.setdefault(data["id"], Sent(event, hashes, whole))
    return out


def plain_messages(rows: list[Event]) -> list[dict[str, Any]]:
    """The rows as messages with nothing added: answers by their id, neighbouring results together, prompts alone."""
    out: list[dict[str, Any]] = []
    answers: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] | None = None
    for row in rows:
        if not isinstance(row, MessageAppended):
            continue
        if row.role == "assistant":
            results = None
            message = answers.get(row.group or row.id)
            if message is None:
                message = answers[row.group or row.id] = {"role": "assistant", "content": []}
                out.append(message)
            message["content"] += row.content
        elif row.origin == "tool" and results is not None:
            results["content"] += row.content
        else:
            message = {"role": "user", "content": list(row.content)}
            results = message if row.origin == "tool" else None
            out.append(message)
    return out


def pieces_as_recorded(messages: list[dict[str, Any]], rebuilt: list[Piece], row: str) -> list[Piece]:
    """Pieces for recorded messages: the rebuilt ones where they say the same, with their sources; the rest from `row`."""
    if messages == messages_of(rebuilt):
        return rebuilt
    by_block = {_encoder.encode(piece.block): piece for piece in rebuilt}
    by_call = {id: piece for piece in rebuilt if (id := piece.block.get("tool_use_id") or piece.block.get("id"))}
    out: list[Piece] = []
    for n, message in enumerate(messages):
        for block in message["content"]:
            same = by_block.get(_encoder.encode(block)) or by_call.get(block.get("tool_use_id") or block.get("id") or "")
            key = f"{row}:{n}:{len(out)}"
            sources: tuple[str, ...] = (row,)
            state, original = "whole", None
            reason = "as the request row holds it"
            if same is not None:
                sources, state, original = same.sources, same.state, same.original
            out.append(
                Piece(key, f"{row}:{n}", str(message["role"]), block, sources, state, reason, block_chars(block), original)
            )
    return out


def prompt(found: Recorded, sent: Sent) -> tuple[list[Block] | None, list[dict[str, Any]] | None, dict[str, Any]]:
    """(system, tools, other parameters) of a recorded request, as far as its shape row holds them."""
    data = sent.row.data
    shape = found.shapes.get(data.get("shapeHash") if isinstance(data.get("shapeHash"), str) else "", {})
    system, tools, params = shape.get("system"), shape.get("tools"), data.get("params")
    known = (
        {k: v for k, v in params.items() if k not in ("betas", "messages", "system", "tools")}
        if isinstance(params, dict)
        else {}
    )
    return blocks(system) if system is not None else None, tools if isinstance(tools, list) else None, known
