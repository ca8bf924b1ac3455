"""Sessions on disk: create, resume, fork, list.

Knows: where sessions live and what their directory holds (`log.jsonl`, `meta.json`,
`tool-results/`). Does not know what is in a log beyond its first line and its nodes.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from .. import __version__
from .. import ids as clock
from ..errors import LogWriteError, SessionNotFound
from ..settings import ContextSettings, settings_from
from .chain import nodes, path_to_root
from .events import BranchSelected, SessionStarted
from .journal import Journal, read
from .live import LiveLog

LOG = "log.jsonl"
META = "meta.json"


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a listing shows of a session without reading its log."""

    session: str
    created: str = ""
    model: str = ""
    workspace: str = ""
    title: str = ""
    origin: dict[str, Any] | None = None
    """{"session": id, "node": id} of the node it was forked from"""


def home() -> Path:
    """Where sessions live: `$NOVA_HOME`, else `~/.nova`."""
    return Path(os.environ.get("NOVA_HOME") or Path.home() / ".nova").expanduser()


def create(
    workspace: str = "",
    settings: ContextSettings | str | dict[str, Any] | None = None,
    model: str = "",
    home: str | os.PathLike[str] | None = None,
    ids: clock.Source | None = None,
) -> LiveLog:
    """A new session under `home`. Raises LogWriteError when its directory cannot be made."""
    return _begin(_root(home), ids or clock.System(), SessionStarted(
        id="", session="", nova=__version__, model=model, workspace=str(workspace),
        settings=settings_from(settings).model_dump(exclude_defaults=True),
    ))  # fmt: skip


def resume(
    session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None, ids: clock.Source | None = None
) -> LiveLog:
    """Open a session to go on with it, by id, unique beginning of an id, or path."""
    directory = find(session, home)
    log = read(directory / LOG)
    return LiveLog(
        Journal(directory / LOG), log.events, session_id=log.source.session_id or directory.name, directory=directory, ids=ids
    )


def fork(
    session: str | os.PathLike[str],
    at: str | None = None,
    home: str | os.PathLike[str] | None = None,
    ids: clock.Source | None = None,
) -> LiveLog:
    """A new session that shares the past of `session` up to node `at` (None: its head)."""
    directory = find(session, home)
    log = read(directory / LOG)
    by_id = nodes(log.events)
    head = at if at is not None else LiveLog(events=log.events).head
    if head is not None and head not in by_id:
        raise SessionNotFound(f"session {directory.name} has no message {head!r}; take an id from its chain")
    first = log.events[0]
    assert isinstance(first, SessionStarted)
    origin = {"session": first.session, "node": head}
    live = _begin(_root(home), ids or clock.System(), msgspec.structs.replace(first, origin=origin), [directory])
    past = {node.id for node in path_to_root(by_id, head)}
    for event in log.events[1:]:
        if event.id in past or (not isinstance(event, BranchSelected | type(first)) and event.id not in by_id):
            live.append(event)
    return live


def find(session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a session. Raises SessionNotFound with the nearest ids."""
    path = Path(session)
    for candidate in (path, path.parent):
        if (candidate / LOG).is_file() and (candidate == path or path.name == LOG):
            return candidate
    root = _root(home)
    known = sorted(p.parent.name for p in root.glob(f"*/{LOG}"))
    matches = [name for name in known if name == str(session)] or [n for n in known if n.startswith(str(session))]
    if len(matches) == 1:
        return root / matches[0]
    near = matches or get_close_matches(str(session), known, 3, 0.3) or known[-3:]
    what = "several sessions begin with" if matches else "there is no session"
    raise SessionNotFound(f"{what} {str(session)!r} in {root}; {'nearest: ' + ', '.join(near) if near else 'it is empty'}")


def _root(home_: str | os.PathLike[str] | None) -> Path:
    return (home() if home_ is None else Path(home_)) / "sessions"


def _begin(root: Path, ids: clock.Source, start: SessionStarted, past: list[Path] | None = None) -> LiveLog:
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            id = ids.new_id("s")
            try:
                (root / id).mkdir(mode=0o700)
                break
            except FileExistsError:
                continue
        start = msgspec.structs.replace(start, id=id, at=clock.iso(ids.now()), session=id)
        meta = Meta(id, start.at, start.model, start.workspace, "", start.origin)
        (root / id / META).write_bytes(msgspec.json.encode(meta) + b"\n")
        store = Journal(root / id / LOG)
    except OSError as error:
        raise LogWriteError(
            f"{root}: no session can be made there ({error.strerror}); set NOVA_HOME to a directory you can write"
        ) from error
    live = LiveLog(store, session_id=id, directory=root / id, past=past or (), ids=ids)
    live.append(start)
    return live
