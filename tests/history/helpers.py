"""Small sessions for tests, written in a line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nova_nb.history import library
from nova_nb.history.events import MessageAppended
from nova_nb.history.live import LiveLog
from nova_nb.history.reading import LOG, read
from nova_nb.ids import Fixed


def session(home: Path, *texts: str, fsync: str = "os", ids: Any = None) -> LiveLog:
    live = library.create("shop", {"fsync": fsync}, "offline", home, ids or Fixed())
    for text in texts:
        say(live, text)
    return live


def say(live: LiveLog, text: str, role: str = "user", **fields: Any) -> str:
    block = {"type": "text", "text": text}
    return live.append(MessageAppended(id=live.new_id(), parent=live.head, role=role, content=[block], **fields)).id


def words(live: LiveLog) -> list[str]:
    """The texts of the active chain."""
    return [block["text"] for node in live.chain for block in node.content if block["type"] == "text"]


def log_of(live: LiveLog) -> Path:
    assert live.directory is not None
    return live.directory / LOG


def ids_in(path: Path) -> list[str]:
    return [event.id for event in read(path).events]
