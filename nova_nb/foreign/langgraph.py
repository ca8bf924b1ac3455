"""Reading rules of LangGraph checkpoints in SQLite.

Knows: each checkpoint holds the whole `messages` channel, and a model node sees the list of the
checkpoint it starts from. Checkpoints form a tree by `parent_checkpoint_id`; the newest id of the
root namespace is the state that goes on, an older one with a second child was time travel.
`RemoveMessage` deletes by id, `update_state` replaces by id. A message that enters in a "loop"
checkpoint was made by a node; when it is the model's, a call was made for it. What the node put
around the messages (system prompt, tools, a summary kept under another key) is its code and in no
checkpoint. Nothing is imported or unpickled: see `langgraph_serde`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionNotFound
from ..history.events import CompactionBoundaryCreated, ForeignRow
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
from .database import MAGIC, database, rows, stream, tables
from .langgraph_serde import decode, wire_of

name = "langgraph"

UNKNOWN = "the node's own code adds the system prompt and tools; no checkpoint holds them"


class Checkpoint(msgspec.Struct):
    """One state: the events its messages are, in order."""

    id: str
    parent: str | None
    space: str
    number: int
    """position in the order of checkpoint ids, from 1: the line of its events"""
    source: str
    messages: list[str]
    at: str = ""


class Call(msgspec.Struct, frozen=True):
    """A model call: the messages it saw."""

    kind: str
    record: str
    number: int
    at: str
    seen: list[str]
    unknown: tuple[str, ...] = (UNKNOWN,)


def sniff(path: Path, head: bytes) -> bool:
    if not head.startswith(MAGIC):
        return False
    return {"thread_id", "checkpoint_id", "checkpoint"} <= set(tables(path).get("checkpoints", ()))


def _threads(path: Path) -> list[str]:
    """Thread ids by their newest root checkpoint; the one used last comes last."""
    with database(path) as db:
        found, _ = rows(
            db,
            "SELECT thread_id, MAX(CASE WHEN checkpoint_ns = '' THEN checkpoint_id END) AS newest FROM checkpoints"
            " GROUP BY thread_id ORDER BY newest",
        )
    return [str(r["thread_id"]) for r in found]


def list_sessions(path: Path) -> list[SessionInfo]:
    stat = path.stat()
    return [SessionInfo(str(path), name, thread, "", stat.st_mtime, stat.st_size) for thread in _threads(path)]


def read(path: Path, session_id: str | None = None) -> Log:
    threads = _threads(path)
    if session_id is not None and session_id not in threads:
        raise SessionNotFound(f"{path}: no thread {session_id} here; it holds {', '.join(threads[-5:]) or 'none'}")
    thread = session_id if session_id is not None else (threads[-1] if threads else "")
    reader = Reader(thread)
    with database(path) as db:
        wanted = (
            "SELECT checkpoint_id, checkpoint_ns, channel, type, value FROM writes WHERE thread_id = ? AND channel = 'messages'"
        )
        pending, _ = rows(db, f"{wanted} ORDER BY checkpoint_id, task_id, idx", thread)
        writes: dict[tuple[str, str], list[Any]] = {}
        for row in pending:
            writes.setdefault((str(row["checkpoint_ns"]), str(row["checkpoint_id"])), []).append(row)
        broken: list[str] = []
        query = "SELECT * FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id, checkpoint_ns"
        for number, row in enumerate(stream(db, broken, query, thread), 1):
            reader.checkpoint(number, dict(row), writes)
    if broken:
        count = len(reader.states)
        reader.build.damage.append(Damage(count, "not-json", f"the database breaks off after {count} rows: {broken[0]}"))
    return reader.build.log(path, name, reader.calls(writes), path.stat().st_size, reader.version, thread)


class Reader:
    """Folds checkpoints, oldest first, into events: one a message, another where a message is replaced."""

    def __init__(self, thread: str) -> None:
        self.build = Builder()
        self.thread = thread
        self.version: str | None = None
        self.states: dict[tuple[str, str], Checkpoint] = {}
        self.items: dict[str, Item] = {}
        self.current: dict[str, tuple[str, Any]] = {}
        self.found: list[Call] = []
        self.texts: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {}
        """channels that hold a text, each with its version: a node may write the same text again"""

    def checkpoint(self, number: int, row: dict[str, Any], writes: dict[tuple[str, str], list[Any]]) -> None:
        space, id = str(row.get("checkpoint_ns") or ""), str(row["checkpoint_id"])
        parent = row["parent_checkpoint_id"] if isinstance(row.get("parent_checkpoint_id"), str) else None
        value, why = decode(row.get("type"), row.get("checkpoint"))
        metadata, _ = decode("json", row.get("metadata"))
        source = words.word(metadata.get("source")) if isinstance(metadata, dict) else ""
        before = self.states.get((space, parent or ""))
        if not isinstance(value, dict):
            self.build.damage.append(Damage(number, "not-json", f"checkpoint {id} (row {number}) cannot be read: {why}"))
            value = {}
        values = value["channel_values"] if isinstance(value.get("channel_values"), dict) else {}
        versions = value["channel_versions"] if isinstance(value.get("channel_versions"), dict) else {}
        messages = values.get("messages")
        if not isinstance(messages, list):
            messages = self._folded(before, writes.get((space, parent or ""), [])) if "messages" in versions else []
        self.version = words.word(value.get("v")) or self.version
        at = words.word(value.get("ts"))
        texts = {
            k: (v, versions.get(k)) for k, v in values.items() if isinstance(v, str) and not k.startswith(("branch:", "__"))
        }
        state = Checkpoint(id, parent, space, number, source, [], at)
        self.states[(space, id)] = state
        self.texts[(space, id)] = texts
        fresh = self._enter(state, [m for m in messages if isinstance(m, dict)])
        old = self.texts.get((space, parent or ""), {})
        self._boundary(state, before, {k: v[0] for k, v in texts.items() if old.get(k) != v})
        if source == "loop":
            self._answers(state, before, fresh)
        data = {"id": id, "parent": parent, "namespace": space, "source": source, "step": _step(metadata)}
        self.build.add(
            ForeignRow(id=self.build.unique(f"checkpoint-{id}", number), at=at, kind=f"checkpoint/{source}", data=data), number
        )

    def _folded(self, before: Checkpoint | None, writes: list[Any]) -> list[Any]:
        """The list where a checkpoint keeps only what changed: the parent's, with the parent's writes."""
        out = [self._raw(id) for id in before.messages] if before else []
        for row in writes:
            if row["channel"] != "messages":
                continue
            value, _ = decode(row["type"], row["value"])
            for message in value if isinstance(value, list) else [value]:
                if not isinstance(message, dict):
                    continue
                same = next((i for i, m in enumerate(out) if m.get("id") == message.get("id") is not None), None)
                if message.get("type") == "remove":
                    out = [] if message.get("id") == "__remove_all__" else [m for m in out if m.get("id") != message.get("id")]
                elif same is None:
                    out.append(message)
                else:
                    out[same] = message
        return out

    def _raw(self, event: str) -> dict[str, Any]:
        return next((raw for id, raw in self.current.values() if id == event), {})

    def _enter(self, state: Checkpoint, messages: list[dict[str, Any]]) -> list[str]:
        """Event ids of a state's messages; gives those that were not there before."""
        fresh: list[str] = []
        for n, message in enumerate(messages):
            own = words.word(message.get("id")) or f"{state.number}.{n}"
            known = self.current.get(own)
            if known is not None and known[1] == message:
                state.messages.append(known[0])
                continue
            id = self.build.unique(own, state.number)
            wire = wire_of(message)
            role, blocks = words.chat(wire)
            event = message_event(
                id,
                role,
                blocks,
                state.messages[-1] if state.messages else None,
                at=state.at,
                group=own if role == "assistant" else None,
                model=_model(message),
                usage=words.usage(message.get("usage_metadata")),
                meta={"replaces": known[0]} if known else {},
            )
            self.build.add(event, state.number)
            self.items[id] = Item(id, role, blocks, wire)
            self.current[own] = (id, message)
            state.messages.append(id)
            fresh.append(id)
        return fresh

    def _boundary(self, state: Checkpoint, before: Checkpoint | None, told: dict[str, str]) -> None:
        """Messages that left the list; a text written under another key with them was a summary."""
        here = {self._own(i) for i in state.messages}
        gone = [i for i in before.messages if self._own(i) not in here] if before else []
        if before is None or not gone:
            return
        id = self.build.unique(f"removed-{state.id}", state.number)
        old = set(before.messages)
        kept = [i for i in state.messages if i in old]
        blocks = [words.text_block(text) for text in told.values()]
        meta = {"removed": gone, "keys": list(told)}
        event = CompactionBoundaryCreated(
            id=id, at=state.at, logical_parent=before.messages[-1], content=blocks, kept=kept, meta=meta, trigger="node"
        )
        self.build.add(event, state.number)
        if told and state.source == "loop":
            why = (
                f"a model call is inferred: {len(gone)} messages left while {', '.join(told)} changed; its prompt is not stored"
            )
            self.found.append(Call("compact", id, state.number, state.at, gone, (why,)))

    @staticmethod
    def _own(event: str) -> str:
        return event.partition("#L")[0]

    def _answers(self, state: Checkpoint, before: Checkpoint | None, fresh: list[str]) -> None:
        kind = "subagent" if state.space else "main"
        for id in fresh:
            if self.items[id].role != "assistant":
                continue
            at = state.messages.index(id)
            seen = before.messages if before is not None and id == fresh[0] else state.messages[:at]
            self.found.append(Call(kind, id, state.number, state.at, list(seen)))

    def calls(self, writes: dict[tuple[str, str], list[Any]]) -> Calls:
        root = [s for s in self.states.values() if not s.space]
        last = max(root, key=lambda s: s.id, default=None)
        open_writes = [w for w in writes.get(("", last.id), []) if w["channel"] == "messages"] if last else []
        ids = last.messages if last else []
        models = {e.id: getattr(e, "model", None) for e in self.build.events}
        usages = {e.id: getattr(e, "usage", None) for e in self.build.events}
        steps = tuple(
            Step(n, c.kind, usages.get(c.record), "partial", c.record, c.number, c.at, models.get(c.record))
            for n, c in enumerate(self.found, 1)
        )
        branches = [s for s in root if last is not None and s is not last and not any(c.parent == s.id for c in root)]
        others = tuple(Leaf(s.messages[-1], s.number, "older-branch") for s in branches if s.messages)
        at = Leaf(ids[-1] if ids else None, last.number if last else None, "newest-checkpoint", others)

        def view(step: int | None) -> View:
            if step is not None:
                call = self.found[step - 1]
                return self._view(call.seen, call.unknown, call.kind)
            more = (f"{len(open_writes)} pending writes are applied when the run goes on",) if open_writes else ()
            return self._view(ids, (UNKNOWN, *more), "main")

        def on_branch(leaf: str | None) -> list[str]:
            named = next((s for s in reversed(root) if s.messages and s.messages[-1] == leaf), None) if leaf else None
            path: dict[str, Checkpoint] = {}
            state = named or last
            while state is not None and state.id not in path:
                path[state.id] = state
                state = self.states.get(("", state.parent or ""))
            met = dict.fromkeys(i for s in reversed(path.values()) for i in s.messages)
            return [i for i in met if self.items[i].role != "system"]

        return Calls(steps, view, at, on_branch, None)

    def _view(self, ids: list[str], unknown: tuple[str, ...], kind: str) -> View:
        items = [self.items[i] for i in ids]
        here = set(ids)
        left = {
            i: ("boundary", "not in the state's list: removed, replaced, or on another branch")
            for i in self.items
            if i not in here
        }
        body = None if kind == "compact" else {"messages": [item.wire for item in items]}
        return View(batched(items), None, None, unknown, left, body)


def _step(metadata: Any) -> Any:
    return metadata.get("step") if isinstance(metadata, dict) else None


def _model(message: dict[str, Any]) -> str | None:
    metadata = message.get("response_metadata")
    return words.word(metadata.get("model_name")) or None if isinstance(metadata, dict) else None
