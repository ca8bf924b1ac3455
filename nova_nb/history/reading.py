"""The read end of a log: whole, or from its end only as far as the active chain needs.

Knows: lines, checksums, damage, the files that a fork shares with its past, and how far back the
active chain reaches. Does not know what a model sees. Nothing here writes, and no byte is fatal:
what cannot be read is named in `Damage`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from ..errors import NotASession
from .chain import carried, nodes, path_to_root
from .events import (
    Event,
    MessageAppended,
    SessionStarted,
    UnknownEvent,
    from_json,
)
from .lines import recover
from .log import Damage, Log, Source

LOG = "log.jsonl"
PAST = "past"
_CRC = b',"crc":"'
_HEAD = re.compile(
    rb'\{"type":"(?:message_appended|compaction_boundary_created)","id":"(?P<id>[\w:.#-]+)"'
    rb'(?:,"at":"(?P<at>[\w:.+-]*)")?(?:,"(?:parent|logical_parent)":"(?P<parent>[\w:.#-]+)")?(?:,"role":"(?P<role>user|assistant)")?'
)


# --- one line ------------------------------------------------------------------------------


def decode(line: bytes) -> tuple[list[Event], str, str]:
    """Events of one line without its end, the kind of damage ("" for none), and a clause that says what it is."""
    try:
        event = from_json(line)
        if line[-18:-10] != _CRC:
            return [event], "", ""
        if isinstance(event, UnknownEvent):
            event = from_json(line[:-18] + b"}")  # its bytes without the checksum, which an append adds again
        if crc32(memoryview(line)[:-18]) == int(line[-10:-2], 16):
            return [event], "", ""
        return [event], "checksum", "changed after it was written (its checksum differs)"
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        pass
    values, kind, clause = recover(line)
    events: list[Event] = []
    for value in values:
        try:
            events.append(from_json(msgspec.json.encode(value)))
        except (ValueError, RecursionError) as error:
            kind, clause = "not-json", f"no event of a Nova log ({error})"
    if not events and (node := _legible(line)) is not None:
        events = [node]
    return events, kind, clause


def whole_message(line: memoryview) -> MessageAppended | None:
    """The message of a line that is as it was written; None for anything else. The short way through `decode`."""
    body = line[:-18]
    if line[-18:] != b',"crc":"%08x"}' % crc32(body):
        return None
    try:
        event = from_json(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, MessageAppended) else None


def _legible(line: bytes) -> Event | None:
    """The node of a line that was written whole and damaged later, when its head can still be read.

    Its words are lost, but not its place: the chain goes on through it. A boundary whose summary is
    lost becomes a message below what it summarised, so that the originals are sent again.
    """
    found = _HEAD.match(line)
    if found is None or line[-18:-10] != _CRC:
        return None
    text = {"type": "text", "text": "[This message cannot be read: its line in the log is damaged.]"}
    id, at, parent, role = ((part or b"").decode() for part in found.group("id", "at", "parent", "role"))
    return MessageAppended(
        id=id, at=at, parent=parent or None, role=role or "user", content=[text], origin="nova", meta={"damaged": True}
    )


# --- files of a session --------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A file that holds a part of a session: its own log, or the log of an ancestor up to `end` bytes.

    `node` is where the session leaves this ancestor's line.
    """

    path: Path
    end: int
    start: SessionStarted | None
    node: str | None = None


def parts(directory: Path, log: Path | None = None) -> tuple[list[Part], list[Damage]]:
    """The session's own log and those of its ancestors, nearest first; a lost ancestor is named in the damage."""
    path = log or directory / LOG
    try:
        out = [Part(path, path.stat().st_size, _start(path))]
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    origin = out[0].start.origin if out[0].start else None
    while origin is not None:
        found = next((p for p in _past(directory, len(out), origin) if p.is_file()), None)
        if found is None:
            lost = f"line 1: forked from session {origin.get('session')}, whose log is gone; what came before the fork is lost"
            return out, [Damage(1, "lost-past", lost)]
        node = origin.get("node")
        out.append(Part(found, int(origin.get("bytes", 0)), _start(found), node if isinstance(node, str) else None))
        origin = out[-1].start.origin if out[-1].start else None
    return out, []


def _past(directory: Path, n: int, origin: dict[str, Any]) -> list[Path]:
    beside = directory.parent / str(origin.get("session")) / LOG
    inside = beside.parent.parent == directory.parent
    return [directory / PAST / f"{n}.jsonl", *([beside] if inside else [])]


def _start(path: Path) -> SessionStarted | None:
    with path.open("rb") as file:
        events, _, _ = decode(file.readline().rstrip(b"\r\n"))
    return events[0] if events and isinstance(events[0], SessionStarted) else None


# --- the whole log ---------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> Log:
    """The whole log, with the past that a fork shares. Bad lines are named in `damage`; everything else is read.

    The first event is the session's own start; what it shares with its ancestors follows, then its own events.
    `lines` are physical lines in the file that holds the event.
    """
    path = Path(path)
    found, damage = parts(path.parent, path)
    rows, bad = rows_of(found)
    events, lines = [row.event for row in rows], [row.line for row in rows]
    start = found[0].start
    source = Source(str(path), "nova", start.nova if start else None, start.session if start else "", found[0].end)
    return Log(source, events, lines, damage + bad)


@dataclass(frozen=True)
class Row:
    """An event and where it stands: file (0: the session's own, n: its n-th ancestor's), physical line, byte offset."""

    event: Event
    depth: int
    line: int
    offset: int


def rows_of(found: list[Part], depth: int = 0) -> tuple[list[Row], list[Damage]]:
    """Every row of a session: its start, what it shares of its ancestors, its own. Ids are unique, the damage is its own."""
    own, damage = _forward(found[depth], depth)
    if depth + 1 < len(found):
        past, _ = rows_of(found, depth + 1)
        events = [row.event for row in past]
        path = {node.id for node in path_to_root(nodes(events), found[depth + 1].node)}
        own[1:1] = compress(past, carried(events, path))
    seen: set[str] = set()
    for i, row in enumerate(own):
        id = row.event.id
        if id in seen:
            id = f"{id}#L{row.line}"
            own[i] = replace(row, event=msgspec.structs.replace(row.event, id=id))
        seen.add(id)
    return own, damage


def _forward(part: Part, depth: int) -> tuple[list[Row], list[Damage]]:
    rows: list[Row] = []
    damage: list[Damage] = []
    offset = 0
    with part.path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if offset + len(line) > part.end:
                break
            found, bad = decode_row(line, number)
            rows += [Row(event, depth, number, offset) for event in found]
            damage += bad
            offset += len(line)
    return rows, damage


def decode_row(row: bytes, number: int) -> tuple[list[Event], list[Damage]]:
    """Events of one physical line with its end, and what is wrong with it. A last line that was cut is "torn"."""
    line = row.rstrip(b"\r\n")
    if not line:
        return [], []
    events, kind, clause = decode(line)
    if not kind:
        return events, []
    if not events and not row.endswith(b"\n"):
        kind, clause = "torn", torn_clause(line)
    return events, [Damage(number, kind, f"line {number}: {clause}", len(events))]


def torn_clause(line: bytes) -> str:
    """What a cut last line means."""
    return f"the last line is cut after {len(line)} bytes; nothing acknowledged was in it"
