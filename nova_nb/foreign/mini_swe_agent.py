"""Reading rules of mini-swe-agent trajectories (`*.traj.json`), versions 1 and 2.

Knows: the list of messages is what the model was sent, one call before each assistant message;
what the agent adds for itself (`extra`, the `exit` row) is never sent. Two calls leave no
assistant message: one whose answer had no valid action (a user row with `interrupt_type`
"FormatError" follows, which keeps the answer), and one that the provider refused (`exit` with
`exception_str`). Does not know the tool schemas: no trajectory holds them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..history.events import ForeignRow, Usage
from ..history.log import Log
from ..ids import iso
from . import words
from .base import SessionInfo, Step
from .calls import Builder, Item, Prefix, linear, one_session
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, read_bytes, row_lines

name = "mini-swe-agent"

_OWN_WORDS = re.compile(r"```mswea_bash_command|<returncode>-?\d+</returncode>|<format_example>")


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return False
    value = peek(head)
    if isinstance(value, list):
        return _rows(value) and bool(_OWN_WORDS.search(words.compact(value[:4])))
    if not isinstance(value, dict):
        return False
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
        return True
    info = value.get("info")
    return isinstance(info, dict) and isinstance(info.get("config"), dict) and "agent" in info["config"]


def _rows(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in value[:-1] or value)


def list_sessions(path: Path) -> list[SessionInfo]:
    return one_session(path, name)


def read(path: Path, session_id: str | None = None) -> Log:
    data = read_bytes(path)
    value, damage = load(data)
    document = value if isinstance(value, dict) else {}
    rows = value if isinstance(value, list) else document.get("messages")
    info = document.get("info") if isinstance(document.get("info"), dict) else {}
    assert isinstance(info, dict)
    build = Builder(damage=damage)
    items: list[Item] = []
    calls: list[Prefix] = []
    left: dict[str, tuple[str, str]] = {}
    lines = row_lines(data, None if isinstance(value, list) else "messages")
    for i, row in enumerate(rows if isinstance(rows, list) else []):
        line = lines[i] if i < len(lines) else 1
        if not isinstance(row, dict) or not isinstance(row.get("role"), str):
            build.add(ForeignRow(id=build.unique(f"m{i + 1}", line), kind="unreadable", parent=build.last, data=row), line)
            continue
        extra = row["extra"] if isinstance(row.get("extra"), dict) else {}
        at = iso(extra["timestamp"]) if _is_time(extra.get("timestamp")) else ""
        response = extra["response"] if isinstance(extra.get("response"), dict) else {}
        usage = words.usage(response.get("usage"))
        model = words.word(response.get("model")) or None
        called = row["role"] == "assistant" or extra.get("interrupt_type") == "FormatError" or "exception_str" in extra
        id = f"m{i + 1}"
        if called:
            calls.append(_call(len(calls) + 1, len(items), usage, id, line, at, model))
        if row["role"] == "exit":
            build.add(ForeignRow(id=build.unique(id, line), at=at, kind="exit", parent=build.last, data=row), line)
            left[id] = ("projection", "the exit row is written for the reader of the file and never sent")
            continue
        if called and row["role"] != "assistant":
            reply = f"{id}-reply"
            build.add(ForeignRow(id=reply, at=at, kind="dropped-reply", parent=build.last, data=response), line)
            left[reply] = ("projection", "an answer without a valid action is not kept in the conversation")
        role, blocks = words.chat(row)
        group = words.word(response.get("id")) or None
        event = build.message(
            id, line, role, blocks, at=at, group=group, model=model, usage=usage if role == "assistant" else None
        )
        items.append(Item(event.id, role, blocks, wire_of(row)))
    if items and items[0].role == "system":
        build.prompt(1, items[0].blocks)
    native = linear(items, calls, left=left)
    version = words.word(info.get("mini_version")) or words.word(document.get("trajectory_format")).rpartition("-")[2] or None
    return build.log(path, name, native, len(data), version, words.word(document.get("instance_id")))


def wire_of(row: dict[str, Any]) -> dict[str, Any]:
    """The message as it was sent: without what the agent keeps for itself, and without empty optional fields."""
    return {k: v for k, v in row.items() if k != "extra" and (v is not None or k == "content")}


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2e10


def _call(number: int, count: int, usage: Usage | None, id: str, line: int, at: str, model: str | None) -> Prefix:
    return Prefix(count, Step(number, "main", usage, "rebuilt", id, line, at, model))
