"""Nova's own sessions as a store: one directory, a folder of them, or a home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.errors import NotASession, SessionNotFound
from nova_nb.history import library
from nova_nb.history.events import MessageAppended
from nova_nb.ids import Fixed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two sessions; the first was written to last."""
    for n in (1, 2):
        with library.create("shop", model="offline", home=tmp_path, ids=Fixed()) as live:
            live.append(MessageAppended(id=f"m{n}", role="user", content=[{"type": "text", "text": f"question {n}"}]))
        os.utime(live.directory / "log.jsonl", (3_000 - n, 3_000 - n))
    return tmp_path


def test_a_home_a_folder_of_sessions_and_a_session_are_listed(home: Path):
    assert [(s.session_id, s.format) for s in nova.list_sessions(home)] == [("s1", "nova"), ("s2", "nova")]
    assert nova.list_sessions(home / "sessions") == nova.list_sessions(home)
    (one,) = nova.list_sessions(home / "sessions" / "s2")
    assert (one.session_id, one.path) == ("s2", str(home / "sessions" / "s2"))
    assert nova.list_sessions(home / "sessions" / "s2" / "log.jsonl") == [one]


def test_of_several_one_is_picked_by_id_or_the_one_used_last(home: Path):
    assert nova.open_session(home).log.get("m1")
    assert nova.open_session(home, session_id="s2").log.get("m2")
    with pytest.raises(SessionNotFound, match="there are: s1, s2"):
        nova.open_session(home, session_id="s3")


def test_a_folder_of_other_logs_is_no_store_of_nova(tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log.jsonl").write_text('{"level":"info"}\n')
    with pytest.raises(NotASession):
        nova.list_sessions(tmp_path)
