"""Reading rules of OpenAI Agents SDK sessions in SQLite (`SQLiteSession`, `AdvancedSQLiteSession`).

Knows: the input of the next call is the session's items by row id (with branches: those of one
branch by `sequence_number`). Items are saved when a turn ends, so a kill loses the calls of its
turn and keeps the prompt. `pop_item` and the compaction session delete rows: only a gap in the row
numbers is left of them. Agents used as tools keep none. Instructions and tools are in no row. A call is found where the
model's items begin after an input; items are sent as Responses input, or, when their answers came
over Chat Completions (`id` "__fake_id__"), as chat messages. Encrypted rows stay closed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..errors import NotASession, SessionNotFound
from ..history.events import CompactionBoundaryCreated, ForeignRow
from ..history.log import Damage, Log
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, batched
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .database import MAGIC, database, rows, tables
from .documents import load

name = "openai-agents"

NO_INSTRUCTIONS = "the agent's instructions and tools are not in the session store"
_FAKE = "__fake_id__"


def sniff(path: Path, head: bytes) -> bool:
    if not head.startswith(MAGIC):
        return False
    found = tables(path)
    return any("message_data" in columns and "session_id" in columns for columns in found.values())


def _tables(path: Path) -> tuple[str, str | None]:
    """Names of the messages table and the sessions table: both can be chosen by the application."""
    found = tables(path)
    messages = next((t for t, c in found.items() if "message_data" in c and "session_id" in c), None)
    if messages is None:
        raise NotASession(f"{path}: no table with session_id and message_data; this is no Agents SDK session store")
    sessions = next((t for t, c in found.items() if {"session_id", "updated_at"} <= set(c) and t != messages), None)
    return messages, sessions


def _sessions(path: Path) -> list[tuple[str, float]]:
    """Session ids and when each was used last (seconds since the epoch), in that order."""
    messages, sessions = _tables(path)
    with database(path) as db:
        found, _ = rows(db, f'SELECT session_id, MAX(id) AS newest FROM "{messages}" GROUP BY session_id ORDER BY newest')
        times: dict[str, float] = {}
        if sessions is not None:
            stamps, _ = rows(db, f"SELECT session_id, CAST(strftime('%s', updated_at) AS REAL) AS at FROM \"{sessions}\"")
            times = {str(r["session_id"]): float(r["at"] or 0) for r in stamps}
    ids = [str(r["session_id"]) for r in found]
    return [(id, times.get(id, 0.0)) for id in [*(i for i in times if i not in ids), *ids]]


def list_sessions(path: Path) -> list[SessionInfo]:
    size = path.stat().st_size
    return [SessionInfo(str(path), name, id, "", at, size) for id, at in _sessions(path)]


def read(path: Path, session_id: str | None = None) -> Log:
    known = [id for id, _ in _sessions(path)]
    if session_id is not None and session_id not in known:
        raise SessionNotFound(f"{path}: no session {session_id} here; it holds {', '.join(known[-5:]) or 'none'}")
    session = session_id if session_id is not None else (known[-1] if known else "")
    messages, _ = _tables(path)
    build = Builder()
    with database(path) as db:
        found, broken = rows(
            db, f'SELECT id, message_data, created_at FROM "{messages}" WHERE session_id = ? ORDER BY id', session
        )
        branches, _ = rows(db, "SELECT * FROM message_structure WHERE session_id = ? ORDER BY sequence_number, id", session)
        taken, _ = rows(db, f'SELECT id FROM "{messages}"')
    if broken:
        build.damage.append(Damage(0, "not-json", f"the database breaks off after {len(found)} rows: {broken}", len(found)))
    branch, order = _branch([dict(b) for b in branches])
    items: dict[int, Item] = {}
    wires: dict[str, dict[str, Any]] = {}
    off: dict[str, tuple[str, str]] = {}
    taken_ids = {int(t["id"]) for t in taken}
    last_number = 0
    for row in found:
        number = int(row["id"])
        gone = [n for n in range(last_number + 1, number) if n not in taken_ids] if last_number else []
        if gone:
            data = {"first": gone[0], "last": gone[-1], "count": len(gone)}
            build.add(ForeignRow(id=f"deleted-{gone[0]}", kind="deleted-rows", parent=build.last, data=data), number)
        last_number = number
        value, at = _item(row["message_data"]), _stamp(row["created_at"])
        if not isinstance(value, dict) or "__enc__" in value:
            kind = "encrypted" if isinstance(value, dict) else "unreadable"
            build.add(ForeignRow(id=build.unique(str(number), number), at=at, kind=kind, parent=build.last, data=value), number)
            continue
        role, blocks = words.response_item(value)
        data = value["provider_data"] if isinstance(value.get("provider_data"), dict) else {}
        group, model = words.word(data.get("response_id")) or None, words.word(data.get("model")) or None
        if value.get("type") == "compaction":
            boundary = CompactionBoundaryCreated(
                id=build.unique(str(number), number), at=at, logical_parent=build.last, content=blocks
            )
            build.add(boundary, number)
            items[number] = Item(boundary.id, role, blocks, value, "", "summary", "compaction by the provider")
        else:
            event = build.message(str(number), number, role, blocks, at=at, group=group, model=model)
            items[number] = Item(event.id, role, blocks, value)
        wires[items[number].id] = value
        if branch is not None and number not in order:
            off[items[number].id] = ("branch", f"not on branch {branch}")
    active = [items[n] for n in (order if branch is not None else items) if n in items]
    return build.log(path, name, _calls(active, wires, off, build), path.stat().st_size, None, session)


def _item(raw: Any) -> Any:
    data = raw.encode("utf-8", "replace") if isinstance(raw, str) else raw if isinstance(raw, bytes) else b""
    value, damage = load(data)
    return raw if any(d.kind != "not-utf8" for d in damage) else value  # the SDK skips what is no JSON


def _stamp(raw: Any) -> str:
    return f"{raw.replace(' ', 'T')}Z" if isinstance(raw, str) and raw else ""


def _branch(structure: list[dict[str, Any]]) -> tuple[str | None, list[int]]:
    """The branch written last and its message ids in order; (None, []) without branches."""
    if not structure:
        return None, []
    newest = max(structure, key=lambda s: (words.count(s.get("id")), words.count(s.get("message_id"))))
    branch = words.word(newest.get("branch_id"))
    return branch, [words.count(s.get("message_id")) for s in structure if words.word(s.get("branch_id")) == branch]


def _starts(items: list[Item], at: dict[str, str]) -> list[tuple[int, Item, bool]]:
    """Where a call was made: (items in its request, the record it is known by, whether its answer is stored).

    An answer begins with the model's items after an input, or with another response id. A prompt
    that another prompt follows at a later time had a call whose turn was never saved.
    """
    out: list[tuple[int, Item, bool]] = []
    for i, item in enumerate(items):
        before = items[i - 1] if i else None
        prompts = before is not None and _is_prompt(before) and _is_prompt(item)
        if before is not None and prompts and at[before.id] < at[item.id]:
            out.append((i, before, False))
        fresh = (
            before is None
            or before.role != "assistant"
            or bool(_response(before) and _response(item) not in ("", _response(before)))
        )
        if item.role == "assistant" and item.state != "summary" and fresh:
            out.append((i, item, True))
    return out


def _is_prompt(item: Item) -> bool:
    return item.role == "user" and (item.wire or {}).get("type", "message") == "message"


_ANSWERED = ("function_call", "custom_tool_call", "computer_call", "shell_call", "local_shell_call", "apply_patch_call")


def _whole(items: list[Item], off: dict[str, tuple[str, str]]) -> list[Item]:
    """Without calls that have no output: the SDK leaves them out when it sends a stored session."""
    wires = [(i, i.wire or {}) for i in items]
    answered = {words.word(w.get("call_id")) for _, w in wires if words.word(w.get("type")).endswith("_output")}
    open_calls = [i for i, w in wires if w.get("type") in _ANSWERED and words.word(w.get("call_id")) not in answered]
    off.update({i.id: ("pairing", "the call has no output in the store, so it is not sent") for i in open_calls})
    return [i for i in items if i not in open_calls] if open_calls else items


def _response(item: Item) -> str:
    data = item.wire.get("provider_data") if item.wire else None
    return words.word(data.get("response_id")) if isinstance(data, dict) else ""


def _calls(items: list[Item], wires: dict[str, dict[str, Any]], off: dict[str, tuple[str, str]], build: Builder) -> Calls:
    lines = {e.id: (line, e.at) for e, line in zip(build.events, build.lines, strict=True)}
    starts = _starts(items, {id: at for id, (_, at) in lines.items()})
    chat = any(w.get("id") == _FAKE for w in wires.values())
    steps = tuple(
        Step(n, "main", None, "partial", item.id, *lines[item.id], _model(item)) for n, (_, item, _) in enumerate(starts, 1)
    )
    said = [item.id for item in items]

    def view(step: int | None) -> View:
        count = len(items) if step is None else starts[step - 1][0]
        left = dict(off)
        seen = _whole(items[:count], left)
        unknown: tuple[str, ...] = (NO_INSTRUCTIONS,)
        if step is not None and not starts[step - 1][2]:
            unknown += ("no answer was saved; that a call was made is inferred from the prompt",)
        if chat:
            wire, seen = as_chat(seen)
            return View(batched(seen), None, None, unknown, left, {"messages": wire})
        return View(batched(_joined(seen)), None, None, unknown, left, {"input": [i.wire for i in seen]})

    def on_branch(leaf: str | None) -> list[str]:
        return said if leaf not in said else said[: said.index(leaf) + 1]

    policy = "branch-written-last" if off else "last-row"
    last = said[-1] if said else None
    return Calls(steps, view, Leaf(last, lines[last][0] if last else None, policy), on_branch, said)


def _model(item: Item) -> str | None:
    data = item.wire.get("provider_data") if item.wire else None
    return words.word(data.get("model")) or None if isinstance(data, dict) else None


def _joined(items: list[Item]) -> list[Item]:
    """Items of one answer as one neutral message."""
    out: list[Item] = []
    for item in items:
        before = out[-1] if out else None
        if before is not None and before.role == item.role == "assistant" and _response(before) == _response(item):
            item = msgspec.structs.replace(item, message=before.message or before.id)
        out.append(item)
    return out


def as_chat(items: list[Item]) -> tuple[list[dict[str, Any]], list[Item]]:
    """Items as the SDK turns them into chat messages: text and calls of one answer join, reasoning is not sent."""
    wire: list[dict[str, Any]] = []
    seen: list[Item] = []
    open_id = ""
    for item in items:
        value = item.wire or {}
        kind = value.get("type") or "message"
        if kind == "reasoning":
            continue
        if item.role == "assistant" and kind in ("message", "function_call"):
            if not open_id or (kind == "message" and "content" in wire[-1] and wire[-1]["content"] is not None):
                wire.append({"role": "assistant", "content": None})
                open_id = item.id
            if kind == "message":
                wire[-1]["content"] = words.text_of(value.get("content"))
            else:
                function = {"name": value.get("name"), "arguments": value.get("arguments")}
                use = {"id": value.get("call_id"), "type": "function", "function": function}
                wire[-1].setdefault("tool_calls", []).append(use)
            seen.append(msgspec.structs.replace(item, message=open_id))
            continue
        open_id = ""
        seen.append(item)
        if kind == "function_call_output":
            wire.append({"role": "tool", "tool_call_id": value.get("call_id"), "content": value.get("output")})
        else:
            wire.append({"role": words.word(value.get("role")) or item.role, "content": _chat_content(value.get("content"))})
    return wire, seen


def _chat_content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": p.get("text")} if isinstance(p, dict) and p.get("type") == "input_text" else p for p in content
    ]
