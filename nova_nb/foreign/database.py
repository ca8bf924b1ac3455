"""SQLite files of other agents, read without leaving a trace.

Knows: how to see what a write-ahead log holds without touching the database, its `-wal` or its
`-shm`. SQLite cannot do that in place (a read-only connection still makes or locks `-shm`, and
`immutable` ignores the log), so a database with a log is copied to a temporary folder first.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ..errors import NotASession

MAGIC = b"SQLite format 3\0"


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can only read. Text that is no UTF-8 comes with U+FFFD in it, never as an error.

    Raises NotASession when the file cannot be opened as a database at all.
    """
    log = path.with_name(path.name + "-wal")
    with tempfile.TemporaryDirectory(prefix="nova-") as folder:
        at, flags = path, "mode=ro&immutable=1"
        try:
            if log.is_file() and log.stat().st_size:
                at, flags = Path(folder) / "copy.db", "mode=rw"
                shutil.copyfile(path, at)
                shutil.copyfile(log, at.with_name("copy.db-wal"))
            connection = sqlite3.connect(f"file:{quote(str(at.absolute()))}?{flags}", uri=True)
        except (OSError, sqlite3.Error) as error:
            raise NotASession(f"{path}: cannot be read as a database ({error}); check the path and its permissions") from error
        try:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA query_only = 1")
            yield connection
        finally:
            connection.close()


def tables(path: Path) -> dict[str, list[str]]:
    """Column names by table; empty when the file is no readable database.

    For `sniff`: a damaged file is not an error there, and the log is looked at (which copies the
    database) only when the file alone has no tables.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)) as db:
            if found := _columns(db):
                return found
    except sqlite3.Error:
        pass
    try:
        with database(path) as db:
            return _columns(db)
    except (sqlite3.Error, NotASession):
        return {}


def _columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if isinstance(row[0], str)]
    return {name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in names if '"' not in name}


def stream(db: sqlite3.Connection, broken: list[str], query: str, *values: object) -> Iterator[sqlite3.Row]:
    """The rows of a query one by one, as far as the file gives them; what breaks it off is added to `broken`."""
    db.row_factory = sqlite3.Row
    try:
        yield from db.execute(query, values)
    except (sqlite3.Error, OverflowError) as error:
        broken.append(str(error))


def rows(db: sqlite3.Connection, query: str, *values: object) -> tuple[list[sqlite3.Row], str | None]:
    """All rows of a query as far as the file gives them, and what broke it off."""
    broken: list[str] = []
    out = list(stream(db, broken, query, *values))
    return out, broken[0] if broken else None
