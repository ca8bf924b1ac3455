"""The four places an opencode session is found in, all read into the same value.

Knows: the database (1.2 and later), the folder of JSON files before it, an export, and a stream of
bus events. Does not know what a message means for the model (`context`).

Identifiers come from files and name files only when they are plain words, so no path leaves its folder.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ...errors import NotASession
from ...history.log import Damage
from ..common import Json, as_dict, as_int, as_list, as_str, read_head, walk_files
from ..database import MAGIC, database, rows, tables
from ..documents import peek, peek_rows
from ..rows import iter_rows

WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass
class Message:
    """A message with its parts, in the order of their ids; `line` is the row it stands on in its store."""

    info: Json
    parts: list[Json]
    line: int

    @property
    def id(self) -> str:
        return as_str(self.info.get("id"))

    @property
    def created(self) -> int:
        """Milliseconds since the epoch."""
        return as_int(as_dict(self.info.get("time")).get("created"))


@dataclass
class Stored:
    """One session of a store."""

    path: Path
    info: Json
    messages: list[Message] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    size: int = 0

    @property
    def id(self) -> str:
        return as_str(self.info.get("id"))

    @property
    def parent(self) -> str | None:
        return as_str(self.info.get("parentID")) or None

    @property
    def updated(self) -> float:
        return as_int(as_dict(self.info.get("time")).get("updated")) / 1000


def is_store(path: Path, head: bytes) -> bool:
    """Whether a path is one of the four, by its content."""
    if path.is_dir():
        return next(_databases(path), None) is not None or _tree(path) is not None
    if head.startswith(MAGIC):
        return _has_tables(path)
    if head.lstrip()[:1] != b"{":
        return False
    if _is_stream(head):
        return True
    whole = as_dict(peek(head))
    first = as_dict(next(iter(as_list(whole.get("messages"))), None))
    return {"id", "version"} <= as_dict(whole.get("info")).keys() and ("parts" in first or "messages" not in whole or not first)


def sessions(path: Path) -> list[Stored]:
    """Sessions of a store, without their messages."""
    if path.is_dir():
        found = {stored.id: stored for stored in _tree_sessions(path)}
        for file in _databases(path):
            found.update({stored.id: stored for stored in _database_sessions(file)})
        return list(found.values())
    head = read_head(path)
    if head.startswith(MAGIC):
        return _database_sessions(path)
    return list(_stream(path) if _is_stream(head) else _export(path))


def load(stored: Stored) -> Stored:
    """The session with its messages."""
    if stored.messages:
        return stored
    if stored.path.is_dir():
        return _from_tree(stored)
    return _from_database(stored) if read_head(stored.path, 16) == MAGIC else stored


def ordered(messages: list[Message]) -> list[Message]:
    """Messages by time and id, parts by id: the order in which opencode reads them."""
    for message in messages:
        message.parts.sort(key=lambda part: as_str(part.get("id")))
    return sorted(messages, key=lambda message: (message.created, message.id))


def _decoded(text: Any, damage: list[Damage], line: int) -> Json:
    """A JSON column or file as an object; what is none is named once."""
    try:
        value = msgspec.json.decode(text if isinstance(text, bytes) else as_str(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        damage.append(Damage(line, "not-json", f"row {line}: {error}"))
        return {}
    return value if isinstance(value, dict) else {}


# the database


def _has_tables(path: Path) -> bool:
    columns = tables(path)
    return {"message", "part", "session"} <= columns.keys() and "session_id" in columns["message"] and "data" in columns["part"]


def _databases(folder: Path) -> Iterator[Path]:
    for path in walk_files(folder, lambda name: name.endswith(".db"), depth=2):
        if _has_tables(path):
            yield path


def _database_sessions(path: Path) -> list[Stored]:
    with database(path) as db:
        found, broken = rows(db, "SELECT * FROM session ORDER BY time_created, id")
    damage = [Damage(1, "database", f"sessions: {broken}")] if broken else []
    out = []
    for row in found:
        data = dict(row)
        revert = data.get("revert")
        info: Json = {
            "id": data.get("id"),
            "version": data.get("version"),
            "title": data.get("title"),
            "parentID": data.get("parent_id"),
            "directory": data.get("directory"),
            "time": {"created": data.get("time_created"), "updated": data.get("time_updated")},
        }
        if isinstance(revert, str):
            info["revert"] = _decoded(revert, damage, 1)
        out.append(Stored(path, info, [], list(damage), path.stat().st_size))
    return out


def _from_database(stored: Stored) -> Stored:
    damage = stored.damage
    with database(stored.path) as db:
        found, broken = rows(
            db, "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id", stored.id
        )
        parts, torn = rows(db, "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", stored.id)
    damage += [Damage(1, "database", f"{stored.path.name}: {what}") for what in (broken, torn) if what]
    by_id: dict[str, Message] = {}
    for line, row in enumerate(found, 1):
        info = {**_decoded(row["data"], damage, line), "id": row["id"]}
        info["time"] = {"created": row["time_created"], **as_dict(info.get("time"))}
        by_id[as_str(row["id"])] = Message(info, [], line)
    for row in parts:
        owner = by_id.get(as_str(row["message_id"]))
        if owner is not None:
            owner.parts.append({**_decoded(row["data"], damage, owner.line), "id": row["id"]})
    stored.messages = ordered(list(by_id.values()))
    return stored


# the folder of JSON files


def _tree(folder: Path) -> Path | None:
    """The folder that holds `session/` and `message/`."""
    for root in (folder, folder / "storage", folder / "opencode" / "storage", *sorted(folder.glob("storage*"))):
        if (root / "session").is_dir() and (root / "message").is_dir():
            return root
    return None


def _tree_sessions(folder: Path) -> Iterator[Stored]:
    roots = [root for root in (_tree(folder), *sorted(folder.glob("storage*"))) if root is not None]
    for root in dict.fromkeys(roots):
        for path in walk_files(root / "session", lambda name: name.endswith(".json"), depth=2):
            damage: list[Damage] = []
            info = _decoded(path.read_bytes(), damage, 1)
            if WORD.fullmatch(as_str(info.get("id"))):
                yield Stored(root, info, [], damage, path.stat().st_size)


def _from_tree(stored: Stored) -> Stored:
    root, by_id = stored.path, {}
    for line, path in enumerate(walk_files(root / "message" / stored.id, lambda name: name.endswith(".json"), depth=1), 1):
        stored.size += path.stat().st_size
        info = _decoded(path.read_bytes(), stored.damage, line)
        by_id[as_str(info.get("id"))] = Message(info, [], line)
    folders = [root / "part" / id for id in by_id if WORD.fullmatch(id)]
    files = [p for folder in folders for p in walk_files(folder, lambda name: name.endswith(".json"), depth=1)]
    if (root / "part").is_dir():
        files += sorted((root / "part").glob("*.json"))
    for path in files:
        part = _decoded(path.read_bytes(), stored.damage, 1)
        owner = by_id.get(as_str(part.get("messageID")))
        if owner is not None:
            owner.parts.append(part)
    stored.messages = ordered(list(by_id.values()))
    return stored


# an export


def _export(path: Path) -> Iterator[Stored]:
    data = path.read_bytes()
    damage: list[Damage] = []
    try:
        whole = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        damage.append(Damage(data.count(b"\n") + 1, "torn", f"the export is broken: {error}"))
        whole = peek(data)
    whole = as_dict(whole)
    messages = []
    for line, entry in enumerate(as_list(whole.get("messages")), 1):
        entry = as_dict(entry)
        messages.append(Message(as_dict(entry.get("info")), [as_dict(part) for part in as_list(entry.get("parts"))], line))
    yield Stored(path, as_dict(whole.get("info")), ordered(messages), damage, len(data))


# a stream of bus events


def _is_stream(head: bytes) -> bool:
    row = peek_rows(head, 1)
    event = as_dict(row[0].get("event", row[0])) if row else {}
    return "properties" in event and as_str(event.get("type")).startswith(("session.", "message."))


def _stream(path: Path) -> list[Stored]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    damage: list[Damage] = []
    infos: dict[str, Json] = {}
    messages: dict[str, Message] = {}
    parts: dict[str, Json] = {}
    for line, _, row in iter_rows(io.BytesIO(data), damage):
        event = as_dict(row.get("event", row))
        kind, properties = as_str(event.get("type")), as_dict(event.get("properties"))
        info, part = as_dict(properties.get("info")), as_dict(properties.get("part"))
        if kind in ("session.created", "session.updated"):
            infos[as_str(info.get("id"))] = info
        elif kind == "message.updated":
            messages[as_str(info.get("id"))] = Message(info, [], line)
        elif kind == "message.part.updated":
            parts[as_str(part.get("id"))] = dict(part)
        elif kind == "message.part.delta" and as_str(properties.get("field")) == "text":
            held = parts.get(as_str(properties.get("partID")))
            if held is not None:
                held["text"] = as_str(held.get("text")) + as_str(properties.get("delta"))
        elif kind == "message.removed":
            messages.pop(as_str(properties.get("messageID")), None)
        elif kind == "message.part.removed":
            parts.pop(as_str(properties.get("partID")), None)
    for part in parts.values():
        owner = messages.get(as_str(part.get("messageID")))
        if owner is not None:
            owner.parts.append(part)
    for message in messages.values():
        infos.setdefault(as_str(message.info.get("sessionID")), {"id": as_str(message.info.get("sessionID"))})
    out = []
    for id, info in infos.items():
        own = [message for message in messages.values() if as_str(message.info.get("sessionID")) == id]
        out.append(Stored(path, info, ordered(own), list(damage), len(data)))
    return out
