"""Reading rules of OpenAI Codex CLI: rollouts under `~/.codex/sessions`.

Knows: which session of a store is meant, and how a file and the file it continues become one log.
The rules of what a request holds are in `fold`, those of the files in `files`; both are told in
docs/formats/codex.md.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from ...errors import SessionNotFound
from ...history.chain import nodes, path_to_root
from ...history.events import MessageAppended
from ...history.log import Damage, Log
from ..base import SessionInfo
from ..calls import Calls, body, conversation, leaf, project, reachable, shown, steps
from ..common import as_str, read_head
from .files import base_of, is_rollout, load, meta_of, rollouts, source_parent, title_of
from .fold import Fold

__all__ = [
    "body", "conversation", "leaf", "list_sessions", "name", "project", "reachable", "read", "shown", "sniff", "steps",
]  # fmt: skip

name = "codex"


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        first = next(rollouts(path), None)
        return first is not None and is_rollout(read_head(first))
    return is_rollout(head)


def list_sessions(path: Path) -> list[SessionInfo]:
    found = []
    for file in rollouts(path) if path.is_dir() else [path]:
        meta, stat = meta_of(file), file.stat()
        thread = as_str(meta.get("id"))
        found.append(SessionInfo(str(file), name, thread, title_of(file), stat.st_mtime, stat.st_size, source_parent(meta)))
    return found


def read(path: Path, session_id: str | None = None) -> Log:
    file = path if path.is_file() else _pick(path, session_id)
    rows, damage, size = load(file)
    meta = next((row.payload for row in rows if row.kind == "session_meta"), {})
    base, gap = base_of(file, meta)
    fold = Fold(meta)
    thread = as_str(meta.get("id"))
    for row in base:
        fold.add(row)
    if base and base[0].thread != thread:
        fold.turns.forget()
    for row in rows:
        fold.add(row)
    if gap:
        damage = [*damage, Damage(1, "missing-base", gap)]
    build = fold.build
    index = {event.id: i for i, event in enumerate(build.events)}
    for step in fold.turns.steps:
        event = build.events[index[step.record]] if step.record in index else None
        if step.usage is not None and isinstance(event, MessageAppended) and event.role == "assistant":
            build.events[index[event.id]] = msgspec.structs.replace(event, usage=step.usage)
    build.damage = damage
    events = build.events

    def on_branch(leaf: str | None) -> list[MessageAppended]:
        return [n for n in path_to_root(nodes(events), leaf or build.last) if isinstance(n, MessageAppended)]

    on_screen = [e.id for e in on_branch(None) if not e.meta.get("hidden")]
    native = Calls(
        tuple(fold.turns.steps),
        lru_cache(maxsize=1)(fold.view),  # a request asks for its pieces and for its body
        fold.leaf(),
        lambda leaf: [e.id for e in on_branch(leaf) if e.role != "system"],
        on_screen,
    )
    return build.log(file, name, native, size, as_str(meta.get("cli_version")) or None, thread)


def _pick(folder: Path, session_id: str | None) -> Path:
    """The file of a session, or of the root session used last. The last of several segments of a thread is the live one."""
    found = list_sessions(folder)
    if session_id is not None:
        of = [info for info in found if info.session_id == session_id]
        if not of:
            near = ", ".join(sorted({info.session_id for info in found})[:5])
            raise SessionNotFound(f"{folder}: there is no session {session_id!r}; there are {near}")
        return Path(max(of, key=lambda info: Path(info.path).name).path)
    roots = [info for info in found if info.parent is None] or found
    return Path(max(roots, key=lambda info: (info.modified, Path(info.path).name)).path)
