"""Reading rules of GitHub Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`.

Knows: the events of 1.0.64, seen in one public session; no request of this agent was captured, so every
step has the basis `partial`. The system prompt is in the log, tool schemas are not. A person's message is
sent as `transformedContent`, a tool's result as `result.content`. What a compaction leaves is not known:
from the boundary on the request says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..errors import NotASession, SessionNotFound
from ..history.events import Block, CompactionBoundaryCreated, ForeignRow
from ..history.log import Log
from .base import Leaf, SessionInfo, Step
from .calls import (
    Builder,
    Calls,
    Item,
    View,
    batched,
    body,
    conversation,
    item_of,
    leaf,
    one_session,
    project,
    reachable,
    shown,
    steps,
)  # fmt: skip
from .common import Json, as_dict, as_list, as_str, read_head, text_block, walk_files
from .documents import peek_rows
from .rows import read_rows
from .words import tool_result, tool_use

__all__ = [
    "body", "conversation", "leaf", "list_sessions", "name", "project", "reachable", "read", "shown", "sniff", "steps",
]  # fmt: skip

name = "copilot"

UNMEASURED = "whether these rules give what was sent: no request of this agent was captured"
KINDS = ("session.start", "user.message", "assistant.message", "assistant.turn_start", "tool.execution_start")


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return next(files(path), None) is not None
    return any(
        row.get("type") in KINDS and isinstance(row.get("data"), dict) and "parentId" in row for row in peek_rows(head, 10)
    )


def files(folder: Path) -> Iterator[Path]:
    """Event files below a folder."""
    for path in walk_files(folder, lambda file: file.endswith(".jsonl"), depth=4):
        if sniff(path, read_head(path, 65_536)):
            yield path


def list_sessions(path: Path) -> list[SessionInfo]:
    found = []
    for file in files(path) if path.is_dir() else [path]:
        rows = peek_rows(read_head(file, 262_144), 60)
        start = next((as_dict(row.get("data")) for row in rows if row.get("type") == "session.start"), {})
        asked = next((as_dict(row.get("data")) for row in rows if row.get("type") == "user.message"), {})
        found += one_session(file, name, as_str(start.get("sessionId")), as_str(asked.get("content"))[:120])
    return found


def read(path: Path, session_id: str | None = None) -> Log:
    file = path if path.is_file() else _pick(path, session_id)
    rows, damage = read_rows(file)
    build = Builder(damage=damage)
    start: Json = {}
    items: list[Item] = []
    found: list[Step] = []
    marks: list[int] = []
    system: list[Block] = []
    model: str | None = None
    open_call = ""
    for line, _, row in rows:
        kind, data, at = as_str(row.get("type")), as_dict(row.get("data")), as_str(row.get("timestamp"))
        id = as_str(row.get("id")) or f"L{line}"
        if kind == "assistant.message":
            call = as_str(data.get("apiCallId")) or id
            model = as_str(data.get("model")) or model
            event = build.message(id, line, "assistant", _answer(data), at=at, group=call, model=model, meta=_counts(data))
            if call != open_call:
                found.append(Step(len(found) + 1, "main", None, "partial", event.id, line, at, model))
                marks.append(len(items))
            open_call = call
            items.append(item_of(event))
        elif kind == "user.message":
            sent = as_str(data.get("transformedContent")) or as_str(data.get("content"))
            items.append(item_of(build.message(id, line, "user", [text_block(sent)], at=at)))
        elif kind == "tool.execution_complete":
            items.append(item_of(build.message(id, line, "user", [_result(data)], at=at)))
        elif kind == "session.compaction_complete":
            summary = as_str(data.get("summaryContent")) or as_str(data.get("summary"))
            boundary = build.unique(id, line)
            content = [text_block(summary)] if summary else []
            build.add(
                CompactionBoundaryCreated(id=boundary, at=at, logical_parent=build.last, content=content, meta=data), line
            )
            build.last = boundary
        else:
            if kind == "session.start":
                start = start or data
                model = as_str(data.get("selectedModel")) or model
            if kind == "system.message":
                system = [text_block(as_str(data.get("content")))]
            row_id = build.unique(id, line)
            build.add(ForeignRow(id=row_id, at=at, kind=kind or "unknown", parent=build.last, data=data), line)
    compacted = any(isinstance(event, CompactionBoundaryCreated) for event in build.events)

    @lru_cache(maxsize=1)
    def view(step: int | None) -> View:
        upto = batched(items if step is None else items[: marks[step - 1]])
        unknown = ["tool schemas", UNMEASURED]
        if compacted:
            unknown.append("what the compaction left: older messages are shown as if it had not been")
        return View(upto, system or None, None, tuple(unknown))

    own = [item.id for item in items]
    last = own[-1] if own else None
    native = Calls(
        tuple(found),
        view,
        Leaf(last, next((n for e, n in zip(build.events, build.lines, strict=True) if e.id == last), None), "newest-message"),
        lambda leaf: own[: own.index(leaf) + 1] if leaf in own else own,
    )
    size = file.stat().st_size
    return build.log(file, name, native, size, as_str(start.get("copilotVersion")) or None, as_str(start.get("sessionId")))


def _answer(data: Json) -> list[Block]:
    blocks: list[Block] = []
    if as_str(data.get("reasoningText")):
        blocks.append({"type": "thinking", "thinking": data["reasoningText"]})
    if as_str(data.get("content")):
        blocks.append(text_block(data["content"]))
    for request in map(as_dict, as_list(data.get("toolRequests"))):
        blocks.append(tool_use(request.get("toolCallId"), request.get("name"), request.get("arguments")))
    return blocks


def _result(data: Json) -> Block:
    result = data.get("result")
    content = as_dict(result).get("content") if isinstance(result, dict) else result
    if content is None:
        content = as_str(as_dict(data.get("error")).get("message"))
    return tool_result(data.get("toolCallId"), content, data.get("success") is False)


def _counts(data: Json) -> Json:
    return {"output_tokens": data["outputTokens"]} if "outputTokens" in data else {}


def _pick(folder: Path, session_id: str | None) -> Path:
    found = list_sessions(folder)
    if session_id is not None:
        found = [info for info in found if info.session_id == session_id]
    if not found:
        raise (
            SessionNotFound(f"{folder}: there is no session {session_id!r}")
            if session_id
            else NotASession(f"{folder}: no session")
        )
    return Path(max(found, key=lambda info: (info.modified, info.path)).path)
