from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from nova_nb.errors import SessionNotFound
from nova_nb.foreign import openai_agents
from nova_nb.session import Session
from tests.foreign.captured import Tally, capture, check, scenarios


def opened(path: Path, session_id: str | None = None) -> Session:
    return Session(openai_agents.read(path, session_id), openai_agents)


@pytest.mark.shared
def test_every_captured_request_whose_items_are_stored_is_rebuilt_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    tally, lost = Tally(), 0
    for folder in scenarios("openai-agents-0.24.0"):
        session, rows = opened(folder / "session" / "sessions.db"), capture(folder)
        main = [i for i, r in enumerate(rows) if r["kind"] == "main"]
        if folder.name == "S3-resume":  # pop_item deleted the answer to request 9 and the result it was sent with
            lost += 1
            main.remove(8)
        check(tally, session, rows, folder.name, list(zip(main, [s.number for s in session.steps], strict=True)))
    with capsys.disabled():
        print(tally.table("\nopenai-agents 0.24.0"), f"\n  in no row: {lost}")
    assert tally.total("exact") >= 38 and not tally.wrong, tally.table("openai-agents")


def store(path: Path, rows: list[tuple[int, str, dict[str, object] | str, str]], wal: bool = False) -> sqlite3.Connection:
    """A made-up session store; with `wal` the rows stay in the write-ahead log while the connection is open."""
    db = sqlite3.connect(path)
    if wal:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
    db.executescript(
        "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);"
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, message_data TEXT, created_at);"
    )
    for number, session, item, at in rows:
        data = item if isinstance(item, str) else json.dumps(item)
        db.execute("INSERT INTO agent_messages VALUES (?, ?, ?, ?)", (number, session, data, at))
    db.commit()
    return db


USER = {"role": "user", "content": "Fix it."}
CALL = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}", "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
REPLY = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}], "id": "msg_1"}
T = "2026-01-01 00:00:0"


def test_a_write_ahead_log_is_read_and_nothing_on_disk_changes(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    db = store(path, [(1, "a", USER, T + "1"), (2, "a", REPLY, T + "2")], wal=True)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert set(files) == {"sessions.db", "sessions.db-wal", "sessions.db-shm"}
    session = opened(path)
    assert session.request().body["input"] == [USER, REPLY]
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == files
    db.close()


def test_a_call_without_output_is_not_sent_and_deleted_rows_leave_a_mark(tmp_path: Path) -> None:
    store(tmp_path / "s.db", [(1, "a", USER, T + "1"), (2, "a", CALL, T + "2"), (5, "a", USER, T + "3")]).close()
    session = opened(tmp_path / "s.db")
    assert session.request().body["input"] == [USER, USER]
    assert session.projection().left["2"][0] == "pairing"
    gap = session.log.get("deleted-3")
    assert gap is not None and gap.data == {"first": 3, "last": 4, "count": 2}


def test_the_session_used_last_is_opened_unless_one_is_named(tmp_path: Path) -> None:
    rows = [
        (1, "a", USER, T + "1"),
        (2, "b", USER, T + "2"),
        (3, "b", CALL, T + "2"),
        (4, "b", OUTPUT, T + "2"),
        (5, "a", REPLY, T + "9"),
    ]
    store(tmp_path / "s.db", rows).close()
    path = tmp_path / "s.db"
    assert [i.session_id for i in openai_agents.list_sessions(path)] == ["b", "a"]
    assert opened(path).log.source.session_id == "a"
    assert len(opened(path, "b").request().messages) == 3
    with pytest.raises(SessionNotFound, match="no session zzz"):
        opened(path, "zzz")


def test_a_prompt_that_was_never_answered_is_a_call_only_when_time_passed(tmp_path: Path) -> None:
    rows = [(1, "a", USER, T + "1"), (2, "a", USER, T + "1"), (3, "a", USER, T + "8"), (4, "a", REPLY, T + "9")]
    store(tmp_path / "s.db", rows).close()
    session = opened(tmp_path / "s.db")
    assert [len(session.request(step=s.number).messages) for s in session.steps] == [2, 3]
    assert "inferred" in session.request(step=1).unknown[1]


def test_only_the_branch_written_last_is_sent(tmp_path: Path) -> None:
    db = store(tmp_path / "s.db", [(1, "a", USER, T + "1"), (2, "a", REPLY, T + "2"), (3, "a", USER, T + "3")])
    db.execute("CREATE TABLE message_structure (id INTEGER PRIMARY KEY, session_id, message_id, branch_id, sequence_number)")
    for i, (message, branch, place) in enumerate([(1, "main", 1), (2, "main", 2), (1, "b2", 1), (3, "b2", 2)], 1):
        db.execute("INSERT INTO message_structure VALUES (?, 'a', ?, ?, ?)", (i, message, branch, place))
    db.commit()
    db.close()
    session = opened(tmp_path / "s.db")
    assert openai_agents.reachable(session.log) == ["1", "3"]
    assert session.projection().left["2"] == ("branch", "not on branch b2")


def test_a_row_that_is_no_item_costs_only_itself(tmp_path: Path) -> None:
    store(
        tmp_path / "s.db", [(1, "a", USER, T + "1"), (2, "a", "{broken", T + "2"), (3, "a", '{"__enc__": 1}', T + "2")]
    ).close()
    log = openai_agents.read(tmp_path / "s.db")
    assert openai_agents.conversation(log) == ["1"]
    assert [type(e).__name__ for e in log.events] == ["MessageAppended", "ForeignRow", "ForeignRow"]
