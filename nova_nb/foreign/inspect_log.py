"""Reading rules of Inspect evaluation logs: `.eval` archives and `.json` files.

Knows: one sample is one session, named `<id>_epoch_<n>`. Each `model` event holds what the model was
given: `input`, or ranges into the sample's message pool, with long texts stored once as
attachments; `call.request` is the provider's own body. So every request is recorded. A sample's
`messages` are its main conversation as it ended. A `line` is the number of the event in its sample.
Members of an archive are read up to a bound, so that a small file cannot unpack without end.
"""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import NotASession, SessionNotFound
from ..history.events import ForeignRow, MessageAppended, PromptSet, Usage
from ..history.log import Damage, Log
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, batched, message_event
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, read_bytes

name = "inspect"

MEMBER_LIMIT = 1 << 28
"""Bytes of an archive member that are read at most: 256 MiB, above any sample seen (the largest public one unpacks to 2 MB)."""

_BROKEN = (OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, NotImplementedError, RuntimeError, EOFError,
           ValueError, KeyError, OverflowError)  # fmt: skip
"""What zipfile and its codecs raise for bytes that are no whole archive."""
_SAMPLE = re.compile(r"samples/(.+)\.json")
_ATTACHMENT = "attachment://"


def sniff(path: Path, head: bytes) -> bool:
    if head.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = set(archive.namelist())
        except _BROKEN:
            return False
        return bool(names & {"header.json", "_journal/start.json"})
    value = peek(head)
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and ("plan" in value or "samples" in value)


def _member(archive: zipfile.ZipFile, member: str) -> tuple[Any, list[Damage]]:
    """A member's value; damage instead of an error when it is larger than the bound or cannot be unpacked."""
    try:
        with archive.open(member) as file:
            data = file.read(MEMBER_LIMIT + 1)
    except _BROKEN as error:
        return None, [Damage(0, "not-json", f"{member}: cannot be unpacked ({error or type(error).__name__})")]
    if len(data) > MEMBER_LIMIT:
        return None, [Damage(0, "too-deep", f"{member}: unpacks to more than {MEMBER_LIMIT} bytes and is not read")]
    return load(data)


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except _BROKEN as error:
        raise NotASession(f"{path}: the archive cannot be read ({error}); an unfinished run has no directory yet") from error


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _named(sample: Any) -> str:
    return f"{sample.get('id')}_epoch_{sample.get('epoch', 1)}" if isinstance(sample, dict) else ""


def _names(path: Path) -> list[str]:
    if _is_zip(path):
        with _open(path) as archive:
            return [m[1] for n in archive.namelist() if (m := _SAMPLE.fullmatch(n))]
    value, _ = load(read_bytes(path))
    samples = value.get("samples") if isinstance(value, dict) else None
    return [_named(s) for s in samples if isinstance(s, dict)] if isinstance(samples, list) else []


def list_sessions(path: Path) -> list[SessionInfo]:
    stat = path.stat()
    return [SessionInfo(str(path), name, id, "", stat.st_mtime, stat.st_size) for id in _names(path)]


def read(path: Path, session_id: str | None = None) -> Log:
    """One sample; without an id the one written last."""
    damage: list[Damage] = []
    if _is_zip(path):
        with _open(path) as archive:
            members = {m[1]: n for n in archive.namelist() if (m := _SAMPLE.fullmatch(n))}
            chosen = _choose(path, list(members), session_id)
            sample, damage = _member(archive, members[chosen]) if chosen else (None, [])
            head = "header.json" if "header.json" in archive.namelist() else "_journal/start.json"
            header, more = _member(archive, head)
            damage += more
    else:
        header, damage = load(read_bytes(path))
        samples = header.get("samples") if isinstance(header, dict) else None
        by_name = {_named(s): s for s in samples if isinstance(s, dict)} if isinstance(samples, list) else {}
        chosen = _choose(path, list(by_name), session_id)
        sample = by_name.get(chosen)
    task = header["eval"] if isinstance(header, dict) and isinstance(header.get("eval"), dict) else {}
    packages = task.get("packages")
    version = words.word(packages.get("inspect_ai")) or None if isinstance(packages, dict) else None
    reader = Reader(sample if isinstance(sample, dict) else {}, damage)
    return reader.build.log(path, name, reader.calls(), path.stat().st_size, version, chosen)


def _choose(path: Path, names: list[str], session_id: str | None) -> str:
    if session_id is None:
        return names[-1] if names else ""
    if session_id not in names:
        raise SessionNotFound(f"{path}: no sample {session_id} here; it holds {', '.join(names[:5]) or 'none'}")
    return session_id


def usage_of(raw: Any) -> Usage | None:
    """Inspect's counts. Input leaves the cache out, except in old logs of providers that count it in: the total tells.

    >>> usage_of({"input_tokens": 5, "output_tokens": 1, "total_tokens": 15, "input_tokens_cache_read": 9})
    Usage(input=5, output=1, cache_read=9, cache_write=0)
    >>> usage_of({"input_tokens": 14, "output_tokens": 1, "total_tokens": 15, "input_tokens_cache_read": 9})
    Usage(input=5, output=1, cache_read=9, cache_write=0)
    """
    if not isinstance(raw, dict):
        return None
    given, output = words.count(raw.get("input_tokens")), words.count(raw.get("output_tokens"))
    read, write = words.count(raw.get("input_tokens_cache_read")), words.count(raw.get("input_tokens_cache_write"))
    if not given + output + read + write:
        return None
    if read + write and words.count(raw.get("total_tokens")) == given + output:
        given = max(given - read - write, 0)
    return Usage(given, output, read, write)


class Reader:
    """Reads one sample: its messages as events, once each, and its model events as steps."""

    def __init__(self, sample: dict[str, Any], damage: list[Damage]) -> None:
        self.build = Builder(damage=damage)
        attachments = sample.get("attachments")
        self.attachments = attachments if isinstance(attachments, dict) else {}
        data = sample["events_data"] if isinstance(sample.get("events_data"), dict) else {}
        self.pool = next((p for p in (sample.get("message_pool"), data.get("messages")) if isinstance(p, list)), [])
        self.call_pool = data["calls"] if isinstance(data.get("calls"), list) else []
        self.known: dict[tuple[str, int], Item] = {}
        self.models: list[tuple[Step, dict[str, Any], list[Item]]] = []
        events = sample["events"] if isinstance(sample.get("events"), list) else []
        self.spans = {
            e["id"]: e
            for e in events
            if isinstance(e, dict) and e.get("event") == "span_begin" and isinstance(e.get("id"), str)
        }
        for line, event in enumerate(events, 1):
            if isinstance(event, dict) and event.get("event") == "model":
                self._model(line, event)
            elif isinstance(event, dict):
                kind = words.word(event.get("event")) or "unknown"
                id = self.build.unique(words.word(event.get("uuid")) or f"event-{line}", line)
                self.build.add(ForeignRow(id=id, at=words.word(event.get("timestamp")), kind=kind, data=event), line)
        self.final = self._items(sample.get("messages"), len(events) or 1)

    def whole(self, value: Any, depth: int = 0) -> Any:
        """The value with attachments in place."""
        if isinstance(value, str):
            return self.attachments.get(value[len(_ATTACHMENT) :], value) if value.startswith(_ATTACHMENT) else value
        if depth > 60:
            return value
        if isinstance(value, list):
            return [self.whole(part, depth + 1) for part in value]
        return {k: self.whole(v, depth + 1) for k, v in value.items()} if isinstance(value, dict) else value

    def _input(self, event: dict[str, Any]) -> list[Any]:
        given = event.get("input")
        if isinstance(given, list) and given:
            return given
        return list(_ranges(event.get("input_refs"), self.pool)) or (given if isinstance(given, list) else [])

    def _items(self, messages: Any, line: int) -> list[Item]:
        """Items of a list of messages; a message met for the first time becomes an event."""
        out: list[Item] = []
        seen: dict[str, int] = {}
        for message in messages if isinstance(messages, list) else []:
            if not isinstance(message, dict):
                continue
            message = self.whole(message)
            text = words.compact({k: v for k, v in message.items() if k not in ("source", "model", "view")})
            seen[text] = seen.get(text, 0) + 1
            key = (text, seen[text])
            if key not in self.known:
                role, blocks = neutral(message)
                id = self.build.unique(words.word(message.get("id")) or f"m{len(self.known) + 1}", line)
                group = id if role == "assistant" else None
                above = out[-1].id if out else None
                event = message_event(id, role, blocks, above, group=group, model=words.word(message.get("model")) or None)
                self.build.add(event, line)
                self.known[key] = Item(id, role, blocks, message)
            out.append(self.known[key])
        return out

    def _model(self, line: int, event: dict[str, Any]) -> None:
        items = self._items(self._input(event), line)
        output = event["output"] if isinstance(event.get("output"), dict) else {}
        choices = output.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        usage, at = usage_of(output.get("usage")), words.word(event.get("timestamp"))
        model = words.word(event.get("model")) or None
        before = len(self.build.events)
        answer = self._items([i.wire for i in items] + [first.get("message")], line)[len(items) :]
        record = answer[0].id if answer else None
        if answer and len(self.build.events) > before and isinstance(self.build.events[-1], MessageAppended):
            said = self.build.events[-1]
            parent = items[-1].id if items else None
            self.build.events[-1] = message_event(
                said.id, said.role, said.content, parent, at=at, group=said.id, model=model, usage=usage
            )
        if record is None:
            record = self.build.unique(f"event-{line}", line)
            self.build.add(ForeignRow(id=record, at=at, kind="model/failed", data=output), line)
        if not self.models:
            system = [block for item in items if item.role == "system" for block in item.blocks]
            self.build.add(PromptSet(id=self.build.unique("prompt", line), at=at, system=system, tools=_tools(event)), line)
        number = len(self.models) + 1
        self.models.append((Step(number, self._kind(event), usage, "recorded", record, line, at, model), event, items))

    def _kind(self, event: dict[str, Any]) -> str:
        role = event.get("role")
        if isinstance(role, str) and role:
            return role
        inside = [words.word(span.get("type")) for span in self._ancestors(event.get("span_id"))]
        if "scorer" in inside or "scorers" in inside:
            return "score"
        return "subagent" if "tool" in inside and "agent" in inside else "main"

    def _ancestors(self, span: Any) -> Iterator[dict[str, Any]]:
        met: set[str] = set()
        while isinstance(span, str) and span in self.spans and span not in met:
            met.add(span)
            yield self.spans[span]
            span = self.spans[span].get("parent_id")

    def calls(self) -> Calls:
        ids = [item.id for item in self.final if item.role != "system"]
        last = ids[-1] if ids else None
        line = next((at for e, at in zip(self.build.events, self.build.lines, strict=True) if e.id == last), None)

        def view(step: int | None) -> View:
            if step is None:
                tools = _tools(self.models[-1][1]) if self.models else None
                return self._view(self.final, tools, None)
            _, event, items = self.models[step - 1]
            return self._view(items, _tools(event), self._request(event))

        def on_branch(leaf: str | None) -> list[str]:
            return ids if leaf not in ids else ids[: ids.index(leaf) + 1]

        return Calls(tuple(step for step, _, _ in self.models), view, Leaf(last, line, "sample-messages"), on_branch, ids)

    def _view(self, items: list[Item], tools: list[dict[str, Any]] | None, request: dict[str, Any] | None) -> View:
        head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
        system = [block for item in items[:head] for block in item.blocks] if head else []
        return View(batched(items[head:]), system, tools, (), {}, request)

    def _request(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The provider's own body, when the log kept it."""
        call = event.get("call")
        request = call.get("request") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(request, dict):
            return None
        key = call.get("call_key")
        if isinstance(key, str) and call.get("call_refs"):
            request = {**request, key: list(_ranges(call["call_refs"], self.call_pool))}
        whole: dict[str, Any] = self.whole(request)
        return whole if "messages" in whole or "input" in whole else None


def _ranges(refs: Any, pool: list[Any]) -> Iterator[Any]:
    """Half-open ranges into a pool."""
    for ref in refs if isinstance(refs, list) else []:
        if isinstance(ref, list) and len(ref) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in ref):
            yield from pool[max(ref[0], 0) : max(ref[1], 0)]


def _tools(event: dict[str, Any]) -> list[dict[str, Any]]:
    tools = event.get("tools")
    return [t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else []


def neutral(message: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Role and blocks of one of Inspect's messages."""
    role, blocks = words.chat({k: v for k, v in message.items() if k != "error"})
    blocks = [_thought(block) for block in blocks]
    error = message.get("error")
    if isinstance(error, dict) and blocks and blocks[0].get("type") == "tool_result":
        content = blocks[0]["content"] or words.word(error.get("message"))
        blocks = [{**blocks[0], "content": content, "is_error": True}]
    return role, blocks


def _thought(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "reasoning":
        return block
    out = {"type": "thinking", "thinking": words.word(block.get("reasoning"))}
    return {**out, "signature": block["signature"]} if isinstance(block.get("signature"), str) else out
