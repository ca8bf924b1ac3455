"""Reading rules of OpenHands: conversations of the SDK (V1) and event lists of the older application (V0).

Knows V1: a conversation is a directory with `base_state.json` and one file an event under
`events/`, or the same events as `events.jsonl`. Events form a tree by `parent_id`; the leaf is
`leaf_event_id` of the base state, and `navigate_to` only moves that. Older V1 files have no
`parent_id`: there each event follows the one before. What the model sees of a path is in
`openhands_view`, V0 in `openhands_v0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NotASession, SessionNotFound
from ..history.events import CompactionBoundaryCreated, ForeignRow, PromptSet, Usage
from ..history.log import Damage, Log
from . import openhands_v0, words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, View, message_event
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, peek_rows, read_bytes
from .openhands_view import ACTION, CONDENSATION, MESSAGE, RESULTS, SYSTEM, Row, blocks_of_row, system_blocks, view_of
from .rows import read_rows

name = "openhands"

_EVENT_FILE = re.compile(r"event-(\d+)-.+\.json")
_KINDS = {SYSTEM, MESSAGE, ACTION, CONDENSATION, *RESULTS, "CondensationRequest", "ConversationStateUpdateEvent", "PauseEvent"}


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return bool(_conversations(path))
    rows = peek_rows(head)
    if any(row.get("kind") in _KINDS and "source" in row for row in rows) or any(openhands_v0.is_output(row) for row in rows):
        return True
    value = peek(head)
    if isinstance(value, dict) and isinstance(value.get("agent"), dict) and "llm" in value["agent"]:
        return True  # base_state.json
    if isinstance(value, dict) and openhands_v0.is_output(value):
        return True
    return isinstance(value, list) and openhands_v0.is_history(value)


def _conversations(path: Path) -> list[Path]:
    """Conversation directories at or directly below a path; the events directory itself counts as its conversation."""
    if path.name == "events" and (path.parent / "base_state.json").is_file():
        return [path.parent]
    try:
        below = sorted(p for p in path.iterdir() if p.is_dir())
    except OSError:
        return []
    return [p for p in (path, *below) if (p / "events").is_dir() and any(_EVENT_FILE.fullmatch(f.name) for f in _files(p))]


def _files(conversation: Path) -> Iterator[Path]:
    try:
        yield from (conversation / "events").iterdir()
    except OSError:
        return


def list_sessions(path: Path) -> list[SessionInfo]:
    if path.is_dir():
        out = []
        for folder in _conversations(path):
            stats = [f.stat() for f in _files(folder) if f.is_file()]
            newest = max((s.st_mtime for s in stats), default=0.0)
            out.append(SessionInfo(str(folder), name, folder.name, "", newest, sum(s.st_size for s in stats)))
        return out
    stat = path.stat()
    if (ids := openhands_v0.session_ids(path)) is not None:
        return [SessionInfo(str(path), name, id, "", stat.st_mtime, stat.st_size) for id in ids]
    return [SessionInfo(str(path), name, "", "", stat.st_mtime, stat.st_size)]


def read(path: Path, session_id: str | None = None) -> Log:
    if path.is_file() and path.name == "base_state.json" and (path.parent / "events").is_dir():
        path = path.parent
    if path.is_dir():
        return _read_folder(path, session_id)
    data = read_bytes(path)
    if (log := openhands_v0.read(path, data, session_id)) is not None:
        return log
    value, _ = load(data)
    if isinstance(value, dict) and "agent" in value and "kind" not in value:  # a base state without its events
        return _log(path, [], [], value, len(data))
    lined = read_rows(path)
    return _log(path, [(row.line, row.value) for row in lined.rows], lined.damage, {}, len(data))


def _read_folder(path: Path, session_id: str | None) -> Log:
    found = _conversations(path)
    if session_id is not None:
        found = [f for f in found if f.name.replace("-", "") == session_id.replace("-", "")]
        if not found:
            raise SessionNotFound(f"{path}: no conversation {session_id} here; nova_nb.list_sessions(path) lists them")
    if not found:
        raise NotASession(f"{path}: no OpenHands conversation in this directory; open the one that holds base_state.json")
    folder = max(found, key=lambda f: max((e.stat().st_mtime for e in _files(f)), default=0.0))
    rows: list[tuple[int, Any]] = []
    damage: list[Damage] = []
    size = 0
    for file in sorted(_files(folder), key=lambda f: f.name):
        match = _EVENT_FILE.fullmatch(file.name)
        if match is None or not file.is_file():
            continue
        data = read_bytes(file)
        size += len(data)
        value, broken = load(data)
        number = int(match[1]) + 1
        damage += [Damage(number, d.kind, f"{file.name}: {d.message}", d.recovered) for d in broken]
        if isinstance(value, dict):
            rows.append((number, value))
    state: Any = {}
    if (folder / "base_state.json").is_file():
        data = read_bytes(folder / "base_state.json")
        size += len(data)
        state, broken = load(data)
        damage += [Damage(0, d.kind, f"base_state.json: {d.message}") for d in broken]
    return _log(path if len(found) == 1 and path == folder else folder, rows, damage, state, size)


def _log(path: Path, raw: list[tuple[int, Any]], damage: list[Damage], state: Any, size: int) -> Log:
    state = state if isinstance(state, dict) else {}
    build = Builder(damage=damage)
    counted = _usages(state)
    rows: list[Row] = []
    tree = any("parent_id" in value for _, value in raw)
    before: str | None = None
    names: dict[str, str] = {}
    for line, value in raw:
        id = words.word(value.get("id")) or f"event-{line}"
        unique = build.unique(id, line)
        names.setdefault(id, unique)
        parent = value.get("parent_id") if tree and isinstance(value.get("parent_id"), str) else before
        row = Row(unique, line, words.word(value.get("kind")), names.get(parent, parent) if parent else None, value)
        rows.append(row)
        _event(build, row, counted)
        before = unique
    native = _calls(rows, state, counted, names)
    session = words.word(state.get("id"))
    return build.log(path, name, native, size, "1", session)


def _event(build: Builder, row: Row, counted: dict[str, Usage]) -> None:
    value, at = row.value, words.word(row.value.get("timestamp"))
    if row.kind == SYSTEM:
        tools = [t for t in value.get("tools") or [] if isinstance(t, dict)] if isinstance(value.get("tools"), list) else []
        build.add(PromptSet(id=row.id, at=at, system=system_blocks(value), tools=tools), row.line)
    elif row.kind == CONDENSATION:
        summary = [words.text_block(value["summary"])] if isinstance(value.get("summary"), str) else []
        build.add(
            CompactionBoundaryCreated(
                id=row.id,
                at=at,
                logical_parent=row.parent,
                content=summary,
                meta={"forgotten": value.get("forgotten_event_ids"), "offset": value.get("summary_offset")},
            ),
            row.line,
        )
    elif row.kind in (MESSAGE, ACTION, *RESULTS):
        role, blocks = blocks_of_row(row)
        group = words.word(value.get("llm_response_id")) or None
        meta = {"thinking": value["reasoning_content"]} if isinstance(value.get("reasoning_content"), str) else {}
        event = message_event(row.id, role, blocks, row.parent, at=at, group=group, usage=counted.get(group or ""), meta=meta)
        build.add(event, row.line)
    else:
        build.add(ForeignRow(id=row.id, at=at, kind=row.kind, parent=row.parent, data=value), row.line)


def _usages(state: dict[str, Any]) -> dict[str, Usage]:
    """Token counts by response id, from the statistics in the base state."""
    out: dict[str, Usage] = {}
    stats = state.get("stats")
    parts = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
    for part in parts.values() if isinstance(parts, dict) else []:
        counts = part.get("token_usages") if isinstance(part, dict) else None
        for entry in counts if isinstance(counts, list) else []:
            usage = words.usage(entry)
            if usage is not None and isinstance(entry.get("response_id"), str):
                out.setdefault(entry["response_id"], usage)
    return out


def _model(state: dict[str, Any]) -> str | None:
    agent = state.get("agent")
    llm = agent.get("llm") if isinstance(agent, dict) else None
    return words.word(llm.get("model")) or None if isinstance(llm, dict) else None


def _calls(rows: list[Row], state: dict[str, Any], counted: dict[str, Usage], names: dict[str, str]) -> Calls:
    by_id = {row.id: row for row in rows}
    model = _model(state)
    answers: list[Row] = []
    seen: set[str] = set()
    for row in rows:
        response = words.word(row.value.get("llm_response_id"))
        if row.kind in (ACTION, CONDENSATION) or (row.kind == MESSAGE and row.value.get("source") == "agent"):
            if (response or row.id) in seen or (row.kind == CONDENSATION and not response):
                continue
            seen.add(response or row.id)
            answers.append(row)
    steps = tuple(
        Step(
            n,
            "compact" if row.kind == CONDENSATION else "main",
            counted.get(words.word(row.value.get("llm_response_id"))),
            "partial" if row.kind == CONDENSATION else "rebuilt",
            row.id,
            row.line,
            words.word(row.value.get("timestamp")),
            model,
        )
        for n, row in enumerate(answers, 1)
    )
    at = _leaf(rows, state, names)

    def path(leaf: str | None) -> list[Row]:
        out: list[Row] = []
        met: set[str] = set()
        while leaf is not None and leaf in by_id and leaf not in met:
            met.add(leaf)
            out.append(by_id[leaf])
            leaf = by_id[leaf].parent
        return out[::-1]

    def view(step: int | None) -> View:
        if step is None:
            return view_of(path(at.record))
        answer = answers[step - 1]
        if answer.kind == CONDENSATION:
            named = {names.get(i, i) for i in answer.value.get("forgotten_event_ids") or [] if isinstance(i, str)}
            before = view_of(path(answer.parent))
            told = [i for i in before.items if named & {i.id, *i.sources}]
            why = (
                "the condenser's prompt and its short rendering of each event are not in the log; these events were summarised"
            )
            return msgspec.structs.replace(before, items=told, body=None, system=None, tools=None, unknown=(why,))
        return view_of(path(answer.parent))

    def on_branch(leaf: str | None) -> list[str]:
        return [row.id for row in path(leaf if leaf in by_id else at.record) if row.kind in (MESSAGE, ACTION, *RESULTS)]

    screen = [row.id for row in rows if row.kind in (MESSAGE, ACTION, *RESULTS)]
    return Calls(steps, view, at, on_branch, screen)


def _leaf(rows: list[Row], state: dict[str, Any], names: dict[str, str]) -> Leaf:
    """The base state's leaf where it is there, else the last event of the file."""
    last = Leaf(rows[-1].id, rows[-1].line, "last-in-file") if rows else Leaf(None, None, "last-in-file")
    if state.get("head_is_empty") is True:
        return Leaf(None, None, "base-state-leaf", (last,))
    named = state.get("leaf_event_id")
    if isinstance(named, str) and named in names:
        id = names[named]
        line = next(row.line for row in rows if row.id == id)
        return Leaf(id, line, "base-state-leaf", () if last.record == id else (last,))
    return last
