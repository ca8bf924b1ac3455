"""Reading rules of pi (and of openclaw, which writes the same files): `~/.pi/agent/sessions/**/*.jsonl`.

Knows: which entry the next step continues from and where model calls stand in the file. The entries
are in `entries`, what a request held in `context`, the providers' words in `wire`; docs/formats/pi.md
tells it all.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from ...errors import NotASession, SessionNotFound
from ...history.events import MessageAppended
from ...history.log import Log
from ..base import Leaf, SessionInfo, Step
from ..calls import Calls, Item, View, body, conversation, leaf, project, reachable, shown, steps
from ..common import as_dict, as_str, read_head, text_block, walk_files
from ..documents import peek_rows
from ..rows import iter_rows
from .context import as_conversation, first_kept, items_of
from .entries import Entry, Tree, said, usage_of
from .wire import body_of, prompt_of

__all__ = [
    "body", "conversation", "leaf", "list_sessions", "name", "project", "reachable", "read", "shown", "sniff", "steps",
]  # fmt: skip

name = "pi"

KINDS = frozenset(
    ["message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "custom_message"]
)
SPLIT = "\n\n---\n\n**Turn Context (split turn):**\n\n"
"""Parts the two summaries of a compaction that cut a turn in two; each took a model call of its own."""

NO_HISTORY = "No prior history."
PAUSE = 0.5
"""Seconds between a question and the next one from which on the first was sent by itself and its answer lost."""


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return next(files(path), None) is not None
    rows = peek_rows(head, 12)
    header = next((row for row in rows if row.get("type") == "session"), None)
    if header is not None and as_str(header.get("id")) and as_str(header.get("cwd")):
        return True
    return any("parentId" in row and row.get("type") in KINDS and "timestamp" in row and "data" not in row for row in rows)


def files(folder: Path) -> Iterator[Path]:
    """Session files below a folder."""
    for path in walk_files(folder, lambda file: file.endswith(".jsonl"), depth=5):
        if sniff(path, read_head(path, 8_192)):
            yield path


def list_sessions(path: Path) -> list[SessionInfo]:
    found = []
    for file in files(path) if path.is_dir() else [path]:
        rows = peek_rows(read_head(file), 40)
        header = next((row for row in rows if row.get("type") == "session"), {})
        words = [said(as_dict(row.get("message"))) for row in rows if as_dict(row.get("message")).get("role") == "user"]
        title = next((block["text"] for _, blocks in words for block in blocks if block.get("type") == "text"), "")
        stat = file.stat()
        parent = as_str(header.get("parentSession")) or as_str(header.get("branchedFrom")) or None
        id = as_str(header.get("id"))
        found.append(SessionInfo(str(file), name, id, title[:120], stat.st_mtime, stat.st_size, parent, parent is not None))
    return found


class Call(NamedTuple):
    """A model call: the entry its request ended with, and for a compaction which part was to be summarised."""

    leaf: str | None
    kind: str = "main"
    entries: tuple[Entry, ...] = ()
    boundary: Entry | None = None
    turn: bool = False


def read(path: Path, session_id: str | None = None) -> Log:
    file = path if path.is_file() else _pick(path, session_id)
    tree = Tree()
    try:
        data = file.read_bytes()
    except OSError as error:
        raise NotASession(f"{file}: cannot be read ({error.strerror}); check the path and its permissions") from error
    header: dict[str, object] = {}
    for line, _, value in iter_rows(io.BytesIO(data), tree.build.damage):
        if value.get("type") == "session" and not header:
            header = value
        tree.add(line, value)
    found, calls = _calls(tree)

    @lru_cache(maxsize=1)  # a request asks for its pieces and for its body
    def view(step: int | None) -> View:
        if step is None:
            return _view(tree, Call(_last(tree)), None)
        return _view(tree, calls[step - 1], found[step - 1].record)

    def on_branch(leaf: str | None) -> list[str]:
        events = (tree.build.events[index[entry.id]] for entry in tree.path(leaf or _last(tree)))
        return [event.id for event in events if isinstance(event, MessageAppended) and event.role != "system"]

    index = {event.id: i for i, event in enumerate(tree.build.events)}
    native = Calls(tuple(found), view, _leaf(tree), on_branch)
    return tree.build.log(file, name, native, len(data), None, as_str(header.get("id")))


def _last(tree: Tree) -> str | None:
    return next(reversed(tree.entries), None)


def _leaf(tree: Tree) -> Leaf:
    """The newest entry; where another branch is longer, that is the alternative."""
    last = _last(tree)
    depth: dict[str, int] = {}
    for entry in tree.entries.values():
        depth[entry.id] = depth.get(entry.parent or "", 0) + (entry.kind == "message")
    longest = max(depth, key=lambda id: depth[id], default=None)
    other: tuple[Leaf, ...] = ()
    if longest is not None and last is not None and depth[longest] > depth[last]:
        other = (Leaf(longest, tree.entries[longest].line, "longest-chain"),)
    return Leaf(last, tree.entries[last].line if last else None, "last-entry-in-file", other)


def _calls(tree: Tree) -> tuple[list[Step], list[Call]]:
    """One entry a model call, in file order."""
    found: list[Step] = []
    calls: list[Call] = []

    def add(call: Call, entry: Entry, basis: str = "rebuilt", counted: bool = True) -> None:
        message = as_dict(entry.data.get("message")) if entry.kind == "message" else entry.data
        at, model = as_str(entry.data.get("timestamp")), as_str(message.get("model")) or None
        usage = usage_of(message) if counted else None
        found.append(Step(len(found) + 1, call.kind, usage, basis, entry.id, entry.line, at, model))
        calls.append(call)

    for entry in tree.entries.values():
        if entry.role == "user" and entry.parent in tree.entries and _unanswered(tree.entries[entry.parent], entry):
            before = tree.entries[entry.parent]
            add(Call(before.id), before)
        if entry.kind == "message" and entry.role == "assistant":
            add(Call(entry.parent), entry)
        elif entry.kind == "compaction":
            both = _compactions(tree, entry)
            for call in both:  # what is counted is the sum of both calls, which is the size of neither
                add(call, entry, "partial", counted=len(both) == 1)
        elif entry.kind == "branch_summary":
            add(Call(entry.parent, "branch-summary", (), entry), entry, "partial")
    return found, calls


def _unanswered(before: Entry, entry: Entry) -> bool:
    """Whether a question was sent and lost its answer: the next one follows it without one, after a pause."""
    if before.role != "user" or before.kind != "message":
        return False
    try:
        a, b = (datetime.fromisoformat(as_str(e.data.get("timestamp"))) for e in (before, entry))
        return (b - a).total_seconds() >= PAUSE
    except (ValueError, TypeError):
        return False


def _compactions(tree: Tree, boundary: Entry) -> list[Call]:
    """The one or two calls a compaction took: for what lies before a turn, and for the turn that it cuts in two."""
    path = tree.path(boundary.id)[:-1]
    end = first_kept(tree, [*path, boundary], boundary)
    end = len(path) if end is None else end
    older = next((i for i in range(len(path) - 1, -1, -1) if path[i].kind == "compaction"), None)
    start = 0
    if older is not None:
        first = first_kept(tree, path, path[older])
        start = older + 1 if first is None else first
    history, cut, _ = as_str(boundary.data.get("summary")).partition(SPLIT)
    if not cut:
        return [Call(boundary.parent, "compact", tuple(path[start:end]), boundary)]
    begin = next((i for i in range(end - 1, start - 1, -1) if path[i].role in ("user", "bashExecution")), start)
    calls = [] if history == NO_HISTORY else [Call(boundary.parent, "compact", tuple(path[start:begin]), boundary)]
    return [*calls, Call(boundary.parent, "compact", tuple(path[begin:end]), boundary, True)]


def _view(tree: Tree, call: Call, record: str | None) -> View:
    path = tree.path(call.leaf)
    if call.boundary is not None:
        return _summary_view(tree, call, path)
    items, left = items_of(tree, call.leaf)
    system, tools = prompt_of(path)
    answer = tree.entries.get(record) if record is not None else None
    source = answer if answer is not None and answer.role == "assistant" else _speaker(path)
    message = as_dict(source.data.get("message")) if source is not None else {}
    unknown = () if system is not None else ("system prompt", "tool schemas")
    api, model = as_str(message.get("api")), as_str(message.get("model")) or None
    return View(items, system, tools, unknown, left, partial(body_of, api, model, items, system, tools))


def _speaker(path: list[Entry]) -> Entry | None:
    return next((entry for entry in reversed(path) if entry.role == "assistant"), None)


def _summary_view(tree: Tree, call: Call, path: list[Entry]) -> View:
    """A request for a summary: the conversation as one text. What it asks for is not in the log."""
    modern = any("systemMessage" in e.data or e.role == "system" for e in tree.entries.values())
    text = as_conversation(list(call.entries), thoughts=not modern)
    text = f"# Conversation\n{text}" if call.turn and modern else f"<conversation>\n{text}\n</conversation>"
    older = next((entry for entry in reversed(path) if entry.kind == "compaction"), None)
    if older is not None and not call.turn:
        text += f"\n\n<previous-summary>\n{as_str(older.data.get('summary'))}\n</previous-summary>"
    sources = tuple(entry.id for entry in call.entries if entry.kind == "message") or (
        call.boundary.id if call.boundary else "",
    )
    item = Item("summary-request", "user", [text_block(text)], None, "", "whole", "the conversation as text", None, sources)
    message = as_dict(source.data.get("message")) if (source := _speaker(path)) is not None else {}
    api, model = as_str(message.get("api")), as_str(message.get("model")) or None
    unknown = ("system prompt", "the instructions after the conversation")
    return View([item], None, None, unknown, {}, partial(body_of, api, model, [item], None, None))


def _pick(folder: Path, session_id: str | None) -> Path:
    found = list_sessions(folder)
    if session_id is not None:
        of = [info for info in found if info.session_id == session_id]
        if not of:
            near = ", ".join(sorted({info.session_id for info in found})[:5])
            raise SessionNotFound(f"{folder}: there is no session {session_id!r}; there are {near}")
        return Path(of[-1].path)
    roots = [info for info in found if info.parent is None] or found
    return Path(max(roots, key=lambda info: (info.modified, Path(info.path).name)).path)
