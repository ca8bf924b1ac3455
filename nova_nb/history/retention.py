"""What is kept: list, measure, archive and delete sessions.

Knows: directories and lineage. Deleting a session hands the results that its forks point at over
to them; its log lives on under the names the forks have of it. Does not decide when to delete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionError, UsageError
from .artifacts import FOLDER, Artifacts
from .lease import Lease
from .library import FORKS, find, home, read_meta, register, sessions_folder
from .reading import LOG, parts

ARCHIVE = "archive"


class Stored(msgspec.Struct, frozen=True):
    """A session as a listing shows it."""

    session: str
    directory: str
    title: str = ""
    created: str = ""
    model: str = ""
    modified: float = 0.0
    """seconds since the epoch"""
    size: int = 0
    """bytes of its own log and results; what it shares with its parent is counted there"""
    parent: str | None = None
    parent_state: str = ""
    """"there" | "gone" (the shared past is kept by this session) | "" (no fork)"""
    forks: tuple[str, ...] = ()
    """sessions that were forked from it and still exist"""


def sessions(home: str | os.PathLike[str] | None = None, archived: bool = False) -> list[Stored]:
    """Sessions under `home`, the one used last first. Reads metadata and sizes, no log."""
    root = _archive(home) if archived else sessions_folder(home)
    found = [stored(path.parent) for path in root.glob(f"*/{LOG}")]
    return sorted(found, key=lambda s: (-s.modified, s.session))


def stored(directory: Path) -> Stored:
    """One session."""
    meta = read_meta(directory)
    stat = (directory / LOG).stat()
    parent = _named(meta.origin)
    return Stored(
        directory.name, str(directory), meta.title, meta.created, meta.model, stat.st_mtime,
        stat.st_size + sum(p.stat().st_size for p in _results(directory)),
        parent, "" if parent is None else "there" if (directory.parent / parent / LOG).is_file() else "gone",
        tuple(path.name for path in _forks(directory)),
    )  # fmt: skip


def lineage(session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> tuple[list[str], list[str]]:
    """The sessions this one descends from (nearest first) and those that descend directly from it."""
    directory = find(session, home)
    past = [part.start.session for part in parts(directory)[0][1:] if part.start]
    return past, [path.name for path in _forks(directory)]


def archive(session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> Path:
    """Move a session out of the listing; `restore` brings it back. Raises SessionLocked while someone writes to it."""
    directory = find(session, home)
    for heir in _forks(directory):
        _inherit(heir, directory)
    return _move(directory, directory.parent.parent / ARCHIVE)


def restore(session: str, home: str | os.PathLike[str] | None = None) -> Path:
    """Bring an archived session back."""
    if not (_archive(home) / session / LOG).is_file() or Path(session).name != session:
        have = ", ".join(sorted(p.parent.name for p in _archive(home).glob(f"*/{LOG}"))) or "none"
        raise UsageError(f"there is no archived session {session!r}; archived are: {have}")
    return _move(_archive(home) / session, sessions_folder(home))


def delete(session: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> list[str]:
    """Delete a session with its results, but for what its forks point at; returns the forks that go on.

    Raises SessionLocked while someone writes to it.
    """
    directory = find(session, home)
    Lease(directory).release()
    heirs = list(_forks(directory))
    ancestors = [directory.parent / part.start.session for part in parts(directory)[0][1:] if part.start]
    for heir in heirs:
        _inherit(heir, directory)
        for ancestor in ancestors:
            if ancestor.parent == directory.parent and ancestor.is_dir():
                register(ancestor, heir.name, None)
    doomed = directory.with_name(f".{directory.name}.deleted")
    try:
        directory.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise SessionError(f"{directory}: could not be deleted ({error.strerror}); check its permissions") from error
    return [heir.name for heir in heirs]


def _inherit(heir: Path, directory: Path) -> None:
    """Second names for every result that the heir may still show, and for the log, should it have lost its own."""
    artifacts = Artifacts(heir, (directory,))
    for path in _results(directory):
        artifacts.adopt(f"{FOLDER}/{path.name}")


def _forks(directory: Path) -> Iterator[Path]:
    """Directories of the forks that a session's own notes name and that still exist and say so themselves."""
    for note in sorted((directory / FORKS).glob("*.json")):
        fork = directory.parent / note.stem
        if (fork / LOG).is_file() and directory.name in _ancestors(fork):
            yield fork


def _ancestors(fork: Path) -> set[str]:
    return {_named(part.start.origin) or "" for part in parts(fork)[0] if part.start} | {
        part.start.session for part in parts(fork)[0][1:] if part.start
    }


def _named(origin: dict[str, Any] | None) -> str | None:
    name = None if origin is None else origin.get("session")
    return name if isinstance(name, str) and name and Path(name).name == name else None


def _results(directory: Path) -> list[Path]:
    return [p for p in (directory / FOLDER).glob("*") if p.is_file() and not p.is_symlink()]


def _archive(home_: str | os.PathLike[str] | None) -> Path:
    return (home() if home_ is None else Path(home_)) / ARCHIVE


def _move(directory: Path, root: Path) -> Path:
    Lease(directory).release()
    target = root / directory.name
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists():
            raise SessionError(f"{target}: there is a session of this name already; delete one of the two")
        directory.rename(target)
    except OSError as error:
        raise SessionError(f"{directory}: could not be moved to {root} ({error.strerror})") from error
    return target
