from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from nova_nb.errors import NotASession
from nova_nb.foreign.database import database, rows, tables


def make(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE t (a)")
    db.execute("INSERT INTO t VALUES ('in the log')")
    db.commit()
    return db


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_what_only_the_write_ahead_log_holds_is_seen_and_no_file_changes(tmp_path: Path) -> None:
    writer = make(tmp_path / "a.db")
    before = state(tmp_path)
    assert tables(tmp_path / "a.db") == {"t": ["a"]}
    with database(tmp_path / "a.db") as db:
        assert [r["a"] for r in rows(db, "SELECT a FROM t")[0]] == ["in the log"]
    assert state(tmp_path) == before
    writer.close()


def test_a_database_without_its_log_gets_none(tmp_path: Path) -> None:
    make(tmp_path / "a.db").close()
    before = state(tmp_path)
    assert set(before) == {"a.db"}
    with database(tmp_path / "a.db") as db:
        assert len(rows(db, "SELECT a FROM t")[0]) == 1
    assert state(tmp_path) == before


def test_nothing_can_be_written(tmp_path: Path) -> None:
    writer = make(tmp_path / "a.db")
    with database(tmp_path / "a.db") as db, pytest.raises(sqlite3.OperationalError):
        db.execute("INSERT INTO t VALUES (1)")
    writer.close()


def test_text_that_is_no_utf8_is_read(tmp_path: Path) -> None:
    writer = make(tmp_path / "a.db")
    writer.execute("INSERT INTO t VALUES (CAST(x'41ff' AS TEXT))")
    writer.commit()
    with database(tmp_path / "a.db") as db:
        assert rows(db, "SELECT a FROM t ORDER BY rowid DESC")[0][0]["a"] == "A\ufffd"
    writer.close()


def test_a_query_that_the_file_cannot_answer_gives_what_there_is_and_why(tmp_path: Path) -> None:
    make(tmp_path / "a.db").close()
    with database(tmp_path / "a.db") as db:
        assert rows(db, "SELECT b FROM nowhere") == ([], "no such table: nowhere")
    with pytest.raises(NotASession, match="cannot be read as a database"), database(tmp_path / "missing" / "a.db"):
        pass
