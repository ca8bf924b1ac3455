"""Reading rules of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json[l]`.

Knows: how a replayed session becomes events, and where model calls are. `replay` folds the file,
`contents` makes requests of it, `parts` words them; docs/formats/gemini.md tells it all.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from ...errors import NotASession, SessionNotFound
from ...history.events import BranchSelected, CompactionBoundaryCreated, ForeignRow, MessageAppended, Usage
from ...history.log import Damage, Log
from ..base import Leaf, SessionInfo, Step
from ..calls import Builder, Calls, Item, View, body, conversation, leaf, project, reachable, shown, steps
from ..common import Json, as_dict, as_list, as_str, read_head, usage_with_cached_inside, walk_files
from ..documents import peek, peek_rows
from ..rows import iter_rows
from .contents import contents_of, wire_of
from .parts import CONTEXT, block_of, model_parts, parts_of, result_parts, signature
from .replay import Call, Message, Replay, tokens_of
from .shrunk import Shrunk, shrunk

__all__ = [
    "body", "conversation", "leaf", "list_sessions", "name", "project", "reachable", "read", "shown", "sniff", "steps",
]  # fmt: skip

name = "gemini"

HEADER = ("sessionId", "projectHash")
SENT = ("user", "gemini")


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return next(files(path), None) is not None
    return _is_session(head)


def _is_session(head: bytes) -> bool:
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    rows = peek_rows(head, 6)
    if any(all(key in row for key in HEADER) for row in rows):
        return True
    if any("$set" in row or row.get("type") == "gemini" for row in rows):
        return True
    whole = peek(head)
    if isinstance(whole, list):
        first = as_dict(next(iter(whole), None))
        return first.get("role") in ("user", "model") and isinstance(first.get("parts"), list)
    return all(key in as_dict(whole) for key in HEADER)


def files(folder: Path) -> Iterator[Path]:
    """Session files below a folder."""
    for path in walk_files(folder, lambda file: file.endswith((".json", ".jsonl")), depth=5):
        if _is_session(read_head(path, 16_384)):
            yield path


def list_sessions(path: Path) -> list[SessionInfo]:
    found = []
    for file in files(path) if path.is_dir() else [path]:
        head = read_head(file)
        rows = peek_rows(head, 30)
        header = next((row for row in rows if all(key in row for key in HEADER)), None) or as_dict(peek(head))
        stat = file.stat()
        parent = file.parent.name if header.get("kind") == "subagent" else None
        found.append(
            SessionInfo(
                str(file), name, as_str(header.get("sessionId")), _title(rows, header), stat.st_mtime, stat.st_size, parent
            )
        )
    return found


def _title(rows: list[Json], header: Json) -> str:
    if as_str(header.get("summary")):
        return as_str(header["summary"])[:120]
    for row in [*rows, *map(as_dict, as_list(header.get("messages")))]:
        text = "".join(as_str(part.get("text")) for part in parts_of(row.get("content")))
        if row.get("type") == "user" and text and not text.startswith(CONTEXT):
            return text[:120]
    return ""


def read(path: Path, session_id: str | None = None) -> Log:
    file = path if path.is_file() else _pick(path, session_id)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise NotASession(f"{file}: cannot be read ({error.strerror}); check the path and its permissions") from error
    replay = Replay()
    damage: list[Damage] = []
    whole = _whole(data, damage)
    if isinstance(whole, list):
        whole = {"messages": [_checkpoint(n, as_dict(content)) for n, content in enumerate(whole, 1)]}
    if isinstance(whole, dict):
        replay.whole(whole)
    else:
        for line, _, value in iter_rows(io.BytesIO(data), damage):
            replay.row(line, value)
    return Opened(file, replay, damage, len(data)).log()


def _checkpoint(n: int, content: Json) -> Json:
    """A content of a saved checkpoint as a message."""
    return {"id": f"c{n}", "type": "gemini" if content.get("role") == "model" else "user", "content": content.get("parts")}


def _whole(data: bytes, damage: list[Damage]) -> Any:
    """The file as one JSON value, or None where it is lines."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        first = peek_rows(data[:65_536], 1)
        if first:
            return None
        damage.append(Damage(data.count(b"\n") + 1, "torn", f"the file is broken: {error}"))
        return peek(data)
    return value if isinstance(value, list) or (isinstance(value, dict) and "messages" in value) else None


def _pick(folder: Path, session_id: str | None) -> Path:
    found = list_sessions(folder)
    if session_id is not None:
        of = [info for info in found if info.session_id == session_id and info.parent is None] or [
            info for info in found if info.session_id == session_id
        ]
        if not of:
            near = ", ".join(sorted({info.session_id for info in found})[:5])
            raise SessionNotFound(f"{folder}: there is no session {session_id!r}; there are {near}")
        return Path(max(of, key=lambda info: info.modified).path)
    roots = [info for info in found if info.parent is None] or found
    return Path(max(roots, key=lambda info: (info.modified, Path(info.path).name)).path)


def usage_of(message: Message) -> Usage | None:
    """Gemini counts cached tokens inside the input, and thoughts beside the output."""
    tokens = tokens_of(message)
    if not any(tokens.values()):
        return None
    return usage_with_cached_inside(tokens["input"], tokens["cached"], tokens["output"] + tokens["thoughts"])


class Opened:
    """A replayed session with what its rules need."""

    def __init__(self, path: Path, replay: Replay, damage: list[Damage], size: int) -> None:
        self.path = path
        self.replay = replay
        self.size = size
        self.build = Builder()
        self.build.damage = damage
        self.modern = any(_is_context(m) for m in replay.records.values())
        self.names: dict[tuple[str, ...], str] = {}

    def log(self) -> Log:
        self._events()
        found: list[Step] = []
        for call in self.replay.calls:
            source = call.answer or (call.before[-1] if call.before else None)
            first = call.answer is not None and call.batches == 0
            usage = usage_of(call.answer) if first and call.answer is not None else None
            basis = "rebuilt" if self.modern and call.kind == "main" else "partial"
            record = source.id if source is not None and call.kind == "main" else f"L{call.line}"
            data = source.data if source is not None else {}
            at, model = as_str(data.get("timestamp")), as_str(data.get("model")) or None
            found.append(Step(len(found) + 1, call.kind, usage, basis, record, call.line, at, model))

        @lru_cache(maxsize=1)  # a request asks for its pieces and for its body
        def view(step: int | None) -> View:
            return self._view(None if step is None else self.replay.calls[step - 1])

        native = Calls(tuple(found), view, self._leaf(), self._reachable, self._shown())
        return self.build.log(self.path, name, native, self.size, None, as_str(self.replay.header.get("sessionId")))

    def _leaf(self) -> Leaf:
        """The list's last message, under the name of the record it first stood in."""
        last = next((m for m in reversed(self.replay.messages) if m.kind in SENT), None)
        if last is None:
            return Leaf(None, None, "last-message-of-the-list")
        record = self.names.get(_signature(last), last.id)
        known = self.replay.records.get(record, last)
        return Leaf(record, known.line, "last-message-of-the-list")

    def _events(self) -> None:
        rows: list[tuple[int, int, Any]] = [(m.line, 1, m) for m in self.replay.records.values()]
        rows += [(line, 0, row) for line, row in self.replay.other]
        rows += [(line, 2, leaf) for line, leaf, _ in self.replay.rewound]
        rows += [(line, 3, snapshot) for line, snapshot in self.replay.snapshots]
        for line, kind, value in sorted(rows, key=lambda row: (row[0], row[1])):
            if kind == 0:
                id = self.build.unique(f"L{line}", line)
                what = "$set" if "$set" in value else as_str(value.get("type")) or "session"
                self.build.add(ForeignRow(id=id, kind=what, parent=self.build.last, data=value), line)
            elif kind == 1:
                self._message(value)
            elif kind == 2:
                id = self.build.unique(f"L{line}", line)
                self.build.add(BranchSelected(id=id, leaf=value, reason="rewound"), line)
                self.build.last = value
            else:
                self._snapshot(line, value)

    def _message(self, message: Message) -> None:
        at = as_str(message.data.get("timestamp"))
        if message.kind not in SENT:
            id = self.build.unique(message.id, message.line)
            self.build.add(ForeignRow(id=id, at=at, kind=message.kind, parent=self.build.last, data=message.data), message.line)
            return
        model = message.kind == "gemini"
        parts = model_parts(message.data) if model else parts_of(message.data.get("content"))
        thoughts = as_list(message.data.get("thoughts"))
        meta: Json = {"thoughts": thoughts} if thoughts else {}
        if _is_context(message):
            meta["hidden"] = True
        event = self.build.message(
            message.id,
            message.line,
            "assistant" if model else "user",
            [block_of(part) for part in parts],
            at=at,
            group=message.id if model else None,
            model=as_str(message.data.get("model")) or None,
            usage=usage_of(message) if model else None,
            meta=meta,
        )
        self.names.setdefault(signature(parts), event.id)
        results = [part for call in as_list(message.data.get("toolCalls")) for part in result_parts(as_dict(call))]
        following = {signature(parts_of(m.data.get("content"))) for m in self.replay.records.values() if m.kind == "user"}
        if results and signature(results) not in following:
            blocks = [block_of(part) for part in results]
            answer = self.build.message(f"{message.id}_response", message.line, "user", blocks, at=at)
            self.names.setdefault(signature(results), answer.id)

    def _snapshot(self, line: int, snapshot: Message) -> None:
        id = self.build.unique(snapshot.id, line)
        before = self.build.last
        blocks = [block_of(part) for part in parts_of(snapshot.data.get("content"))]
        at = as_str(snapshot.data.get("timestamp"))
        self.build.add(CompactionBoundaryCreated(id=id, at=at, logical_parent=before, content=blocks), line)
        self.build.last = id

    def _reachable(self, leaf: str | None) -> list[str]:
        gone = {id for _, _, ids in self.replay.rewound for id in ids}
        own = [e.id for e in self.build.events if isinstance(e, MessageAppended) and e.id.removesuffix("_response") not in gone]
        return own[: own.index(leaf) + 1] if leaf in own else own

    def _shown(self) -> list[str]:
        hidden = {e.id for e in self.build.events if isinstance(e, MessageAppended) and e.meta.get("hidden")}
        return [id for id in self._reachable(None) if id not in hidden]

    def _view(self, call: Call | None) -> View:
        unknown = ["system prompt", "tool schemas", "thought signatures"]
        left = dict(self.replay.dropped)
        unsure: frozenset[str] = frozenset()
        if call is None:
            items = contents_of(self.replay.messages, self.names, self.modern, resumed=True)
            left |= {
                m.id: ("projection", f"{m.kind} messages are not sent") for m in self.replay.messages if m.kind not in SENT
            }
        elif call.kind == "compact":
            items = contents_of(call.before, self.names, self.modern, resumed=False, open=True)
            groups = list(dict.fromkeys(item.message for item in items))
            kept = set(groups[: len(groups) - call.tail] if call.tail else groups)
            items = [item for item in items if item.message in kept]
            unknown.append("the instructions at the end")
        else:
            items = contents_of(call.before, self.names, self.modern, resumed=False, batches=call.batches)
        if not self.modern:
            unknown.append("the context message at the start")
            unknown.append("whether the client was restarted since an earlier turn: then calls of one record were one turn")
            less = None if call is None else self._shrunk[id(call)]
            if less is not None:
                unknown.append(less.what)
                unsure = frozenset(id for m in less.unsure for id in (m, f"{m}_response"))
        answer = call.answer if call is not None else None
        model = as_str(answer.data.get("model")) if answer is not None else ""
        return View(items, None, None, tuple(unknown), left, partial(_body, model, items), unsure)

    @cached_property
    def _shrunk(self) -> dict[int, Shrunk | None]:
        """What each call lacked, by the identity of the call."""
        calls = self.replay.calls
        return dict(zip(map(id, calls), shrunk(calls, usage_of), strict=True))


def _body(model: str, items: list[Item]) -> Json:
    return {**({"model": model} if model else {}), "contents": wire_of(items)}


def _is_context(message: Message) -> bool:
    first = next(iter(parts_of(message.data.get("content"))), {})
    return message.kind == "user" and as_str(first.get("text")).startswith(CONTEXT)


def _signature(message: Message) -> tuple[str, ...]:
    return signature(model_parts(message.data) if message.kind == "gemini" else parts_of(message.data.get("content")))
