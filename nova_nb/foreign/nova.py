"""Reading rules of Nova's own sessions: `log.jsonl` in a session directory.

Knows: which file is a Nova log and what its steps are. What a step saw is the projection of the
chain at the recorded leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionNotFound
from ..history import journal
from ..history.chain import head_of, nodes, path_to_root
from ..history.events import CompactionBoundaryCreated, MessageAppended, ReplyReceived, RequestSent, SessionStarted
from ..history.library import read_meta
from ..history.log import Log
from ..projection.overflow import as_sent
from ..projection.pieces import Projection
from ..projection.projector import Projector
from ..settings import ContextSettings, settings_from
from .base import Leaf, SessionInfo, Step

name = "nova"


MARK = b'{"type":"session_started"'
"""how a Nova log begins"""


def sniff(path: Path, head: bytes) -> bool:
    return bool(_directories(path)) if path.is_dir() else head.lstrip(b"\xef\xbb\xbf").startswith(MARK)


def _directories(path: Path) -> list[Path]:
    """Session directories at a path: itself, those in a folder of sessions, or those of a home (`sessions/`)."""
    if (path / "log.jsonl").is_file():
        return [path]
    found = [log for pattern in ("*/log.jsonl", "sessions/*/log.jsonl") for log in path.glob(pattern)]
    return sorted(log.parent for log in found if _begins(log))


def _begins(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False


def list_sessions(path: Path) -> list[SessionInfo]:
    found = []
    for directory in _directories(path) if path.is_dir() else [path.parent]:
        stat = (directory / "log.jsonl" if path.is_dir() else path).stat()
        meta = read_meta(directory)
        origin = (meta.origin or {}).get("session")
        found.append(
            SessionInfo(str(directory), name, meta.session, meta.title, stat.st_mtime, stat.st_size, origin, origin is not None)
        )
    return found


def read(path: Path, session_id: str | None = None) -> Log:
    """The session at a path; of several, the one with this id, or the one that was written to last."""
    if not path.is_dir():
        return journal.read(path)
    found = list_sessions(path)
    wanted = [info for info in found if session_id is None or info.session_id == session_id]
    if not wanted:
        have = ", ".join(info.session_id for info in found)
        raise SessionNotFound(f"{path}: there is no session {session_id!r} in it; there are: {have}")
    return journal.read(Path(max(wanted, key=lambda info: info.modified).path) / "log.jsonl")


def settings_of(log: Log) -> ContextSettings:
    first = log.events[0] if log.events else None
    return settings_from(first.settings) if isinstance(first, SessionStarted) else ContextSettings()


def conversation(log: Log) -> list[str]:
    return [e.id for e in log.events if isinstance(e, MessageAppended)]


def leaf(log: Log) -> Leaf:
    head = head_of(log.events)
    return Leaf(head, None if head is None else log.line(head), "recorded-head")


def reachable(log: Log, leaf: str | None = None) -> list[str]:
    at = leaf if leaf is not None else head_of(log.events)
    return [n.id for n in path_to_root(nodes(log.events), at) if isinstance(n, MessageAppended)]


def shown(log: Log) -> list[str] | None:
    return conversation(log)


def steps(log: Log) -> tuple[Step, ...]:
    replies = {e.request: e for e in log.events if isinstance(e, ReplyReceived)}
    out: list[Step] = []
    for e in log.events:
        if isinstance(e, RequestSent):
            reply = replies.get(e.id)
            record = reply.message if reply and reply.message else e.id
            out.append(
                Step(len(out) + 1, e.kind, reply.usage if reply else None, "rebuilt", record, log.line(record), e.at, e.model)
            )
    return tuple(out)


def projector(log: Log, step: int | None = None) -> Projector:
    """The projection as it stood when a step's request left, or (None) at the end of the log."""
    made = Projector(settings_of(log))
    left = step
    for event in log.events:
        if left is not None and isinstance(event, RequestSent):
            left -= 1
            if left == 0:
                break
        made.add(event)
    return made


def project(log: Log, step: int | None = None) -> Projection:
    return next(iter(projections(log, [step])))[1]


def projections(log: Log, steps: Iterable[int | None]) -> Iterator[tuple[int | None, Projection]]:
    """The projections of several steps in one pass over the log, in order of the steps, the next request last."""
    made = Projector(settings_of(log))
    wanted = set(steps)
    left = len(wanted - {None})
    number = 0
    for event in log.events:
        if not left and None not in wanted:
            return
        if isinstance(event, RequestSent):
            number += 1
            if number in wanted:
                left -= 1
                yield number, with_appended(made.projection(), event, made.settings)
        made.add(event)
    if None in wanted:
        yield None, made.projection()


def around(log: Log, event: str) -> tuple[Projection, Projection]:
    """The next request's projection just before and just after an event."""
    made = Projector(settings_of(log))
    before = made.projection()
    for each in log.events:
        if each.id == event:
            before = made.projection()
        made.add(each)
        if each.id == event:
            break
    return before, made.projection()


def with_appended(projection: Projection, sent: RequestSent, settings: ContextSettings | None = None) -> Projection:
    """The projection as one request carried it: see `as_sent`."""
    return msgspec.structs.replace(projection, pieces=as_sent(projection.pieces, sent, settings or ContextSettings()))


def body(log: Log, projection: Projection, step: int | None = None) -> dict[str, Any] | None:
    return None


def boundaries(log: Log) -> list[CompactionBoundaryCreated]:
    return [e for e in log.events if isinstance(e, CompactionBoundaryCreated)]
