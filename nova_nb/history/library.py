"""Sessions on disk: create, find, resume, fork.

Knows: where sessions live and what their directory holds (`log.jsonl`, `meta.json`,
`tool-results/`, `past/`, `forks/`, the writer's lock), and what a resume reports. Does not know
what a model sees. What is kept and thrown away is `retention`'s.

A fork copies no history. Its directory holds a second name (a hard link) of its parent's log, and
its first line says up to which byte of it and to which node the two share their past. The parent
may go on or be deleted: those bytes never change and live as long as one name of the file does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from .. import __version__
from .. import ids as clock
from ..errors import LogWriteError, SessionNotFound, UsageError
from ..settings import ContextSettings, settings_from
from . import forking
from .chain import Node, path_to_root
from .events import Event, MessageAppended, SessionStarted
from .interrupted import report
from .journal import Journal
from .lease import Lease
from .live import LiveLog
from .reading import LOG, PAST, Part, parts
from .tail import load, load_whole, uncollected

META = "meta.json"
FORKS = "forks"


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a listing shows of a session without reading its log."""

    session: str
    created: str = ""
    model: str = ""
    workspace: str = ""
    title: str = ""
    origin: dict[str, Any] | None = None
    """{"session", "node", …} of the place it was forked from"""


class _Leased(Journal):
    """A journal and the right to write to it, released together."""

    def __init__(self, path: Path, policy: str, lease: Lease) -> None:
        super().__init__(path, policy)
        self._lease = lease

    def close(self) -> None:
        super().close()
        self._lease.release()


def home() -> Path:
    """Where sessions live: `$NOVA_HOME`, else `~/.nova`."""
    return Path(os.environ.get("NOVA_HOME") or Path.home() / ".nova").expanduser()


def sessions_folder(home_: str | os.PathLike[str] | None = None) -> Path:
    """The folder with one directory a session."""
    return (home() if home_ is None else Path(home_)) / "sessions"


def create(
    workspace: str | os.PathLike[str] = "",
    settings: ContextSettings | str | dict[str, Any] | None = None,
    model: str = "",
    home: str | os.PathLike[str] | None = None,
    ids: clock.Source | None = None,
) -> LiveLog:
    """A new session under `home`. Raises LogWriteError when its directory cannot be made."""
    changed = settings_from(settings).model_dump(exclude_defaults=True)
    start = SessionStarted(id="", session="", nova=__version__, model=model, workspace=str(workspace), settings=changed)
    return _begin(sessions_folder(home), ids or clock.System(), start)


def resume(
    session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None, ids: clock.Source | None = None
) -> LiveLog:
    """Open a session to go on with it, by id, unique beginning of an id, or path.

    Reads from the end of the log what the active chain needs, and logs as notes what it finds: a
    writer that died, damage, calls that have no result. No tool runs again.
    Raises SessionNotFound, SessionLocked (another process writes to it), NotASession.
    """
    return _open(find(session, home), ids or clock.System())


def fork(
    session: str | os.PathLike[str],
    at: str | None = None,
    home: str | os.PathLike[str] | None = None,
    ids: clock.Source | None = None,
    settings: ContextSettings | str | dict[str, Any] | None = None,
    model: str | None = None,
) -> LiveLog:
    """A new session that shares the past of `session` up to node `at` (None: where it stands).

    Costs the same however long that past is; the parent may be open elsewhere. Raises UsageError
    when `at` is no node of the session.
    """
    source = ids or clock.System()
    parent = find(session, home)
    loaded = load(parent)
    shared, node, end = forking.place(parts(parent)[0], loaded, at)
    first = shared[0].start or SessionStarted(id="", session=parent.name)
    origin = {"session": first.session, "node": node, "bytes": end}
    start = msgspec.structs.replace(first, nova=__version__, origin=origin)
    if model is not None:
        start = msgspec.structs.replace(start, model=model)
    if settings is not None:
        start = msgspec.structs.replace(start, settings=settings_from(settings).model_dump(exclude_defaults=True))
    live = _begin(
        sessions_folder(home), source, start, read_meta(parent).title, lambda directory: forking.share(shared, end, directory)
    )
    assert live.artifacts is not None
    live.artifacts.past = (parent, *(p for p in live.artifacts.past if p != parent))
    forking.adopt(live.artifacts, live.events)
    for ancestor in {parent, parent.parent / first.session}:
        if ancestor.is_dir():
            register(ancestor, live.session_id, node)
    return live


def find(session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a session. Raises SessionNotFound with the nearest ids."""
    path = Path(session)
    if (path / LOG).is_file():
        return path
    if path.name == LOG and path.is_file():
        return path.parent
    root = sessions_folder(home)
    if path.name == str(session) and (root / path / LOG).is_file():
        return root / path
    known = sorted(p.parent.name for p in root.glob(f"*/{LOG}"))
    matches = [name for name in known if str(session) and name.startswith(str(session))]
    if len(matches) == 1:
        return root / matches[0]
    near = matches[:5] or get_close_matches(str(session), known, 3, 0.3) or known[-3:]
    what = "several sessions begin with" if matches else "there is no session"
    raise SessionNotFound(f"{what} {str(session)!r} in {root}; {'nearest: ' + ', '.join(near) if near else 'it is empty'}")


def branch_summary(live: LiveLog, left: str, text: str) -> MessageAppended:
    """A message that tells the branch gone to what came of the branch that was left at node `left`; append it.

    Call it after the rewind. `text` is a summary, a model's or a person's. Raises UsageError when `left` is unknown.
    """
    live.load_older()
    by_id = {event.id: event for event in live.events if isinstance(event, Node)}
    if left not in by_id:
        raise UsageError(f"session {live.session_id} has no message {left!r}; take an id from its branches")
    shared = {node.id for node in path_to_root(by_id, live.head)}
    gone = [node.id for node in path_to_root(by_id, left) if node.id not in shared]
    return MessageAppended(
        id=live.new_id(), at=live.now(), parent=live.head, role="user", content=[{"type": "text", "text": text}],
        origin="nova", meta={"summary": True, "branch": {"left": left, "messages": gone}},
    )  # fmt: skip


def read_meta(directory: Path) -> Meta:
    """The metadata of a session; what is missing or damaged is left empty."""
    try:
        return msgspec.json.decode((directory / META).read_bytes(), type=Meta)
    except (OSError, msgspec.DecodeError):
        return Meta(directory.name)


def register(ancestor: Path, fork_id: str, node: str | None) -> None:
    """Write into a session's directory that a fork of it exists. The fork's own first line is the truth."""
    with suppress(OSError):
        (ancestor / FORKS).mkdir(mode=0o700, exist_ok=True)
        (ancestor / FORKS / f"{fork_id}.json").write_bytes(msgspec.json.encode({"session": fork_id, "node": node}) + b"\n")


def past_directories(directory: Path, found: Iterable[Part]) -> list[Path]:
    """The directories of the sessions this one descends from, nearest first, as far as they are there."""
    named = [directory.parent / part.start.session for part in list(found)[1:] if part.start]
    return [path for path in named if path.parent == directory.parent and path.is_dir()]


# --- opening ---------------------------------------------------------------------------------


def _begin(
    root: Path, ids: clock.Source, start: SessionStarted, title: str = "", prepare: Callable[[Path], None] | None = None
) -> LiveLog:
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        id = ids.new_id("s")
        while (root / id).exists():
            id = ids.new_id("s")
        directory = root / id
        directory.mkdir(mode=0o700)
        start = msgspec.structs.replace(start, id=id, at=clock.iso(ids.now()), session=id)
        if prepare is not None:
            prepare(directory)
        write_meta(directory, Meta(id, start.at, start.model, start.workspace, title, start.origin))
        journal = Journal(directory / LOG, str(start.settings.get("fsync", "durable")))
        journal.append(start)
        journal.close()
        _sync_directory(directory)
        _sync_directory(root)
    except OSError as error:
        raise LogWriteError(
            f"{root}: no session can be made there ({error.strerror}); set NOVA_HOME to a directory that can be written"
        ) from error
    return _open(directory, ids)


def _open(directory: Path, ids: clock.Source) -> LiveLog:
    lease = Lease(directory, clock.iso(ids.now()))
    try:
        with uncollected():
            loaded = load(directory)
            first = loaded.events[0] if loaded.events else None
            start = first if isinstance(first, SessionStarted) else SessionStarted(id="", session=directory.name)
            past = past_directories(directory, parts(directory)[0]) if (directory / PAST).is_dir() else []
            live = LiveLog(
                _Leased(directory / LOG, str(start.settings.get("fsync", "durable")), lease),
                loaded.events,
                session_id=start.session,
                directory=directory,
                past=past,
                ids=ids,
                places=loaded.places,
                steps=loaded.steps,
                older=None if loaded.whole else lambda: load_whole(directory),
            )
    except BaseException:
        lease.release()
        raise
    if len(live.events) <= 1:
        _title_later(live)
    for note in report(live, loaded.damage, lease.dead):
        live.append(note)
    return live


def write_meta(directory: Path, meta: Meta) -> None:
    """Replace the metadata of a session, whole or not at all."""
    partial = directory / f".{META}.partial"
    partial.write_bytes(msgspec.json.encode(meta) + b"\n")
    partial.replace(directory / META)


def _title_later(live: LiveLog) -> None:
    """Take the first words of a person as the title."""

    def take(event: Event) -> None:
        if isinstance(event, MessageAppended) and event.role == "user" and live.directory is not None:
            text = next((b["text"] for b in event.content if b.get("type") == "text" and isinstance(b.get("text"), str)), "")
            if text:
                end()
                with suppress(OSError):
                    write_meta(
                        live.directory, msgspec.structs.replace(read_meta(live.directory), title=" ".join(text.split())[:80])
                    )

    end = live.subscribe(take)


def _sync_directory(directory: Path) -> None:
    """Make the names in a directory as safe as the files; not every system can."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
