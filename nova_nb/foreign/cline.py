"""Reading rules of Cline and Roo: sessions of the new Cline SDK, and task folders of the editor extensions.

Knows: an SDK session file is rewritten at each compaction, so its messages are what the next call
carries, and what was removed is nowhere. A task folder keeps all of `api_conversation_history.json`;
Cline sends the first exchange and what follows the deleted range (inclusive, in `ui_messages.json`),
Roo sends from its newest summary on, without results whose call is not there. Token counts include
cached tokens in the SDK's files. A task folder holds no system prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..history.events import Block, CompactionBoundaryCreated, Usage
from ..history.log import Log
from ..ids import iso
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, batched, one_session
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .common import as_dict, as_int, as_list, as_str
from .documents import load, peek, read_bytes, row_lines

name = "cline"

HISTORY, SCREEN = "api_conversation_history.json", "ui_messages.json"
NO_PROMPT = "a task folder holds neither the system prompt nor the tools"
REWRITTEN = "the file was rewritten by a compaction; what stood before it is nowhere"


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return (path / HISTORY).is_file()
    value = peek(head)
    if isinstance(value, dict):
        sdk = "sessionId" in value and isinstance(value.get("messages"), list) and "version" in value
        return sdk or ("messages_path" in value and "session_id" in value)
    first = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}
    return isinstance(first.get("ts"), int) and "role" in first and isinstance(first.get("content"), list)


def _file(path: Path) -> Path:
    """The file that holds the messages of a folder or of a manifest."""
    if path.is_dir():
        return path / HISTORY
    beside = path.with_name(path.name.removesuffix(".json") + ".messages.json")
    return beside if beside.is_file() and not path.name.endswith(".messages.json") else path


def list_sessions(path: Path) -> list[SessionInfo]:
    return one_session(_file(path), name, path.name if path.is_dir() else "")


def read(path: Path, session_id: str | None = None) -> Log:
    file = _file(path)
    data = read_bytes(file)
    value, damage = load(data)
    document = as_dict(value)
    rows = value if isinstance(value, list) else as_list(document.get("messages"))
    lines = row_lines(data, None if isinstance(value, list) else "messages")
    build = Builder(damage=damage)
    prompt = words.blocks_of(document.get("system_prompt"))
    if prompt:
        build.prompt(1, prompt)
    kept: list[dict[str, Any]] = []
    items: list[Item] = []
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("role"), str):
            continue
        line = lines[i] if i < len(lines) else 1
        role, blocks = words.anthropic(row)
        own, at = as_str(row.get("id")) or f"m{i + 1}", iso(row["ts"] / 1000) if 0 < as_int(row.get("ts")) < 4e12 else ""
        note = as_dict(row.get("metadata"))
        summary = note.get("kind") in ("compaction", "compaction_summary") or row.get("isSummary") is True
        if summary:
            boundary = CompactionBoundaryCreated(
                id=build.unique(f"{own}-boundary", line), at=at, logical_parent=build.last, trigger=as_str(note.get("reason")),
                tokens_before=as_int(as_dict(note.get("usageBefore")).get("inputTokens")), meta=note,
            )  # fmt: skip
            build.add(boundary, line)
            build.last = boundary.id
        model = as_str(as_dict(row.get("modelInfo")).get("id")) or None
        meta = {"summary": True} if summary else {}
        event = build.message(own, line, role, blocks, at=at, model=model, usage=usage_of(row.get("metrics")), meta=meta)
        items.append(Item(event.id, role, blocks, wire_of(row), "", "summary" if summary else "whole"))
        kept.append(row)
    classic = isinstance(value, list)
    native = _calls(items, kept, _ranges(file) if classic else [], classic, prompt, build)
    session = as_str(document.get("sessionId")) or (file.parent.name if file.name == HISTORY else "")
    return build.log(path, name, native, len(data), words.word(document.get("version")) or None, session)


def usage_of(raw: Any) -> Usage | None:
    """The counts of an answer; input includes what was read from the cache.

    >>> usage_of({"inputTokens": 100, "cacheReadTokens": 90, "outputTokens": 5})
    Usage(input=10, output=5, cache_read=90, cache_write=0)
    """
    counts = as_dict(raw)
    given, read, write = (as_int(counts.get(k)) for k in ("inputTokens", "cacheReadTokens", "cacheWriteTokens"))
    return Usage(max(given - read - write, 0), as_int(counts.get("outputTokens")), read, write) if given else None


def wire_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row as an Anthropic message."""
    return {"role": row["role"], "content": row.get("content")}


def _ranges(file: Path) -> list[tuple[int, int, int]]:
    """(index of the history when it was noted, first, last) of each deleted range that the screen file names."""
    screen = file.with_name(SCREEN)
    value = load(read_bytes(screen))[0] if screen.is_file() else None
    out = []
    for entry in as_list(value):
        cut = as_list(as_dict(entry).get("conversationHistoryDeletedRange"))
        if len(cut) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in cut):
            out.append((as_int(as_dict(entry).get("conversationHistoryIndex")), cut[0], cut[1]))
    return out


def _calls(
    items: list[Item],
    rows: list[dict[str, Any]],
    ranges: list[tuple[int, int, int]],
    classic: bool,
    prompt: list[Block],
    build: Builder,
) -> Calls:
    events = {e.id: (e, line) for e, line in zip(build.events, build.lines, strict=True)}
    answers = [i for i, item in enumerate(items) if item.role == "assistant"]
    rewritten = not classic and any(item.state == "summary" for item in items)
    unknown = (NO_PROMPT,) if classic else ()

    def active(count: int) -> tuple[list[Item], dict[str, tuple[str, str]]]:
        chosen = list(range(count))
        if classic and any("condenseId" in r or "isSummary" in r or "truncationId" in r for r in rows):
            chosen = _roo(rows[:count])
        elif ranges:
            noted = [(first, last) for index, first, last in ranges if count == len(items) or index < count]
            _first, last = noted[-1] if noted else (0, 0)
            if 2 <= last < count - 1:  # the extension itself ignores a range outside these bounds
                chosen = [i for i in chosen if i < 2 or i > last]
        here = {items[i].id for i in chosen}
        left = {i.id: ("boundary", "truncated or condensed out of the request") for i in items[:count] if i.id not in here}
        return _paired([items[i] for i in chosen], left), left

    def view(step: int | None) -> View:
        count = len(items) if step is None else answers[step - 1]
        seen, left = active(count)
        why = (*unknown, REWRITTEN) if step is not None and rewritten else unknown
        return View(batched(seen), prompt or None, None, why, left, {"messages": [i.wire for i in seen]})

    steps = tuple(
        Step(n, "main", getattr(events[items[i].id][0], "usage", None), "partial" if view(n).unknown else "rebuilt", items[i].id,
             events[items[i].id][1], events[items[i].id][0].at, getattr(events[items[i].id][0], "model", None))
        for n, i in enumerate(answers, 1)
    )  # fmt: skip

    def on_branch(leaf: str | None) -> list[str]:
        ids = [i.id for i in items]
        return ids if leaf not in ids else ids[: ids.index(leaf) + 1]

    last = items[-1].id if items else None
    return Calls(steps, view, Leaf(last, events[last][1] if last else None, "last-in-file"), on_branch, [i.id for i in items])


def _roo(rows: list[dict[str, Any]]) -> list[int]:
    """Roo's rule: from the newest summary on; before that, what no summary or truncation replaced."""
    newest = max((i for i, row in enumerate(rows) if row.get("isSummary") is True), default=-1)
    chosen = range(max(newest, 0), len(rows))
    markers = {as_str(rows[i].get(key)) for i in chosen for key in ("condenseId", "truncationId")} - {""}
    hidden = ("truncationParent",) if newest >= 0 else ("truncationParent", "condenseParent")
    return [i for i in chosen if not any(as_str(rows[i].get(key)) in markers for key in hidden)]


def _paired(items: list[Item], left: dict[str, tuple[str, str]]) -> list[Item]:
    """Without results whose call is not in the request."""
    calls = {b.get("id") for item in items for b in item.blocks if b.get("type") == "tool_use"}
    out: list[Item] = []
    for item in items:
        blocks = [b for b in item.blocks if b.get("type") != "tool_result" or b.get("tool_use_id") in calls]
        if len(blocks) != len(item.blocks):
            left.setdefault(item.id, ("pairing", "a result whose call is not in the request is not sent"))
            if not blocks:
                continue
            wire = {**(item.wire or {}), "content": blocks}
            item = msgspec.structs.replace(item, blocks=blocks, wire=wire)
        out.append(item)
    return out
