"""Claude Code transcripts on disk: which files there are, and one of them as a log.

Knows: the layout below `~/.claude` and how rows become events. Does not know which rows a
request carries (`chain`) or in what words (`wire`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...errors import SessionNotFound
from ...history.events import CompactionBoundaryCreated, Event, ForeignRow, MessageAppended
from ...history.log import Damage, Log, Source
from ..base import SessionInfo
from ..rows import iter_rows, open_bytes, repair
from .chain import Transcript
from .schema import Row, accept, blocks, decode, plain

NAME = "claude-code"
SYNTHETIC = "<synthetic>"
"""`model` of rows that the client made up itself: error texts, "No response requested." """


def stream(path: str | Path, damage: list[Damage] | None = None) -> Iterator[tuple[int, Row]]:
    """(line, row) for every row of a file, one at a time, in constant memory: for files of a gigabyte.

    >>> sum(row.speaks for _, row in stream("session.jsonl"))      # doctest: +SKIP
    1204
    """
    with open_bytes(Path(path)) as file:
        for line, _, row in iter_rows(file, [] if damage is None else damage, decode, accept):
            yield line, row


def read_file(path: Path) -> Log:
    """One transcript file as a log; `native` is its `Transcript`."""
    damage: list[Damage] = []
    rows: list[Row] = []
    lines: list[int] = []
    events: list[Event] = []
    seen: set[str] = set()
    shared: dict[str, str] = {}
    version: str | None = None
    with open_bytes(path) as file:
        for number, _, (row, data) in iter_rows(file, damage, _row_and_data, _lenient_row_and_data):
            # Values that are the same on thousands of rows are kept once.
            if row.session is not None:
                row.session = shared.setdefault(row.session, row.session)
            if row.version is not None:
                row.version = version = shared.setdefault(row.version, row.version)
            if row.cwd is not None:
                row.cwd = shared.setdefault(row.cwd, row.cwd)
            id = row.uuid or (data.get("id") if row.type == "api-request" and isinstance(data, dict) else None)
            if not isinstance(id, str):
                id = f"L{number}"
            while id in seen:
                id = f"{id}#L{number}"
            seen.add(id)
            rows.append(row)
            lines.append(number)
            events.append(event_of(row, id, data))
        size = file.tell()
    sessions = [row.session for row in rows if row.session]
    session = path.stem if not sessions or path.stem in sessions or path.name.startswith("agent-") else sessions[-1]
    source = Source(str(path), NAME, version, session, size)
    return Log(source, events, lines, damage, Transcript(path, rows, events, lines))


def _row_and_data(line: bytes) -> tuple[Row, Any]:
    row = decode(line)
    return row, None if row.speaks else plain(line)


def _lenient_row_and_data(value: Any) -> tuple[Row, Any] | None:
    row = accept(value)
    return None if row is None else (row, value)


def names_of(log: Log) -> set[str]:
    """The session ids that a file goes by: its name, and those on its rows (a continued session keeps the old rows)."""
    stem = Path(log.source.path).stem
    return {stem, stem.removeprefix("agent-"), *(row.session for row in log.native.rows if row.session)}


def event_of(row: Row, id: str, data: Any) -> Event:
    """The event of a row. `data` is the whole row as plain JSON, for rows that are no messages."""
    at = row.at or ""
    message = row.message
    if message is not None and row.speaks:
        content = blocks(message.content)
        return MessageAppended(
            id=id,
            at=at,
            parent=row.parent,
            role=row.type,
            content=content,
            origin=_origin(row, content),
            group=message.id if row.type == "assistant" else None,
            model=message.model,
            usage=None if message.usage is None else message.usage.normalised(),
            meta=_flags(row),
        )
    if not isinstance(data, dict):
        data = {}
    if row.type == "system" and row.subtype == "compact_boundary":
        about = data.get("compactMetadata")
        about = about if isinstance(about, dict) else {}
        return CompactionBoundaryCreated(
            id=id,
            at=at,
            logical_parent=row.logical,
            trigger=_text(about.get("trigger")),
            kept=preserved(about),
            tokens_before=_count(about.get("preTokens")),
            tokens_after=_count(about.get("postTokens")),
            meta=data,
        )
    return ForeignRow(id=id, at=at, kind=kind_of(row, data), parent=row.parent, data=data)


def kind_of(row: Row, data: dict[str, Any]) -> str:
    """`type/subtype` of a row that is no message; an attachment's or a progress row's own type is its subtype."""
    inner = {"attachment": data.get("attachment"), "progress": data.get("data")}.get(row.type)
    sub = inner.get("type") if isinstance(inner, dict) else row.subtype
    return f"{row.type}/{sub}" if isinstance(sub, str) and sub else row.type or "untyped"


def preserved(about: dict[str, Any]) -> list[str]:
    """The uuids that a boundary says it kept word for word, in order; [] for versions that name only the ends."""
    kept = about.get("preservedMessages")
    uuids = kept.get("uuids") if isinstance(kept, dict) else None
    return [id for id in uuids if isinstance(id, str)] if isinstance(uuids, list) else []


def _origin(row: Row, content: list[dict[str, Any]]) -> str:
    if row.type == "assistant":
        return "nova" if row.message is not None and row.message.model == SYNTHETIC else "model"
    if row.hidden or row.summary:
        return "nova"
    for block in content:
        if block.get("type") == "tool_result":
            return "tool"
    return "person"


def _flags(row: Row) -> dict[str, Any]:
    """Facts about a row that the model never sees. Only those that hold are there."""
    flags: dict[str, Any] = {}
    for name, value in (
        ("sidechain", row.sidechain),
        ("hidden", row.hidden),
        ("summary", row.summary),
        ("api_error", row.api_error),
        ("agent", row.agent),
        ("answers", row.source_row),
        ("for_call", row.source_call),
        ("request", row.request),
    ):
        if value:
            flags[name] = value
    if row.message is not None and row.message.model == SYNTHETIC:
        flags["synthetic"] = True
    return flags


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def raw(log: Log, id: str) -> dict[str, Any] | None:
    """The whole row of an event as the file has it, `toolUseResult` included; None if the file no longer holds it.

    Read from the file again, because a row's copy for the screen is often larger than what the model saw.
    """
    event = log.get(id)
    if isinstance(event, ForeignRow):
        return event.data if isinstance(event.data, dict) else None
    if isinstance(event, CompactionBoundaryCreated):
        return event.meta
    number = log.line(id)
    if number is None:
        return None
    with open_bytes(Path(log.source.path)) as file:
        for n, line in enumerate(file, 1):
            if n == number:
                return _row_in(line, n, id)
    return None


def _row_in(line: bytes, number: int, id: str) -> dict[str, Any] | None:
    try:
        found = [plain(line)]
    except (ValueError, RecursionError, msgspec.DecodeError):
        found = repair(line, number)[0]
    return next((row for row in found if isinstance(row, dict) and row.get("uuid") in (id, id.rpartition("#L")[0])), None)


_TIME = re.compile(rb'"timestamp"\s*:\s*"(\d{4}-\d\d-\d\dT[^"]{0,20})"')


def transcripts(folder: Path) -> list[Path]:
    """Session files of a project folder, of a `projects` folder, or of the agent's home."""
    for pattern in ("*.jsonl", "*/*.jsonl", "projects/*/*.jsonl"):
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if any(is_transcript(head(path)) for path in found):
            return found
    return []


def head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(65_536)
    except OSError:
        return b""


_LINK = re.compile(rb'"parentUuid"\s*:\s*(?:null|")|"leafUuid"\s*:\s*"')
_BARE = re.compile(rb'\{"type":"(?:queue-operation|file-history-snapshot|mode|permission-mode|last-prompt|summary|ai-title)",')


def is_transcript(first: bytes) -> bool:
    """Whether the first bytes of a file are rows of a transcript: they link by `parentUuid`, or are its bare records."""
    return _LINK.search(first) is not None or _BARE.match(first.lstrip(b"\xef\xbb\xbf \r\n\t\0")) is not None


def list_sessions(path: Path) -> list[SessionInfo]:
    """Sessions below a path, the one used last first; subagents' files name their parent."""
    files = transcripts(path) if path.is_dir() else [path]
    infos = [info for file in files for info in _infos(file)]
    return sorted(infos, key=lambda info: (info.parent is not None, -info.modified, info.path))


def _infos(file: Path) -> list[SessionInfo]:
    first = head(file)
    if not is_transcript(first):  # other programs keep .jsonl files too, and a newer one of theirs is not the session used last
        return []
    agents = sorted((file.parent / file.stem / "subagents").rglob("agent-*.jsonl"))
    return [_info(file, first), *(_info(agent, head(agent)) for agent in agents)]


_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]{1,80})"')
_AGENT = re.compile(rb'"agentId"\s*:\s*"')
_SIDE = re.compile(rb'"isSidechain"\s*:\s*true')
_TITLE = re.compile(rb'"(?:summary|aiTitle|customTitle)"\s*:\s*("(?:[^"\\]|\\.){0,300}")')


def _info(file: Path, first: bytes) -> SessionInfo:
    stat = file.stat()
    with file.open("rb") as handle:
        handle.seek(max(0, stat.st_size - 65_536))
        tail = handle.read()
    times = _TIME.findall(tail) or _TIME.findall(first)
    line = first.partition(b"\n")[0]
    agent = _AGENT.search(line) is not None and _SIDE.search(line) is not None
    inside = _SESSION.findall(first)
    title = _TITLE.search(tail) or _TITLE.search(first)
    return SessionInfo(
        path=str(file),
        format=NAME,
        session_id=file.stem,
        title=str(plain(title[1])) if title else "",
        modified=_seconds(max(times).decode("ascii", "replace")) if times else stat.st_mtime,
        size=stat.st_size,
        parent=(inside[-1].decode("utf-8", "replace") if inside else file.parent.parent.name) if agent else None,
    )


def _seconds(stamp: str) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def choose(path: Path, session_id: str | None) -> Path:
    """The file to read: the path itself, or in a folder the session asked for, else the root session used last."""
    if not path.is_dir():
        return path
    infos = list_sessions(path)
    if session_id is not None:
        for info in infos:
            if session_id in (info.session_id, info.session_id.removeprefix("agent-")):
                return Path(info.path)
    elif infos:
        return Path(infos[0].path)
    names = ", ".join(info.session_id for info in infos[:5] if info.parent is None)
    raise SessionNotFound(f"{path}: there is no session {session_id or ''} here; the latest are {names or 'none'}")
