"""One writer a session: a lock that the operating system takes back when its holder dies.

Knows: the lock file, and who holds it. Does not know what is written. The lock itself is
`filelock`'s; `writer.json` beside it only says who it is, so that a refusal can name the holder
and a takeover can be reported.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from ..errors import SessionError, SessionLocked

LOCK = "lock"
WRITER = "writer.json"


class Writer(msgspec.Struct, frozen=True):
    """Who writes: process id, host name and since when (ISO 8601)."""

    pid: int
    host: str
    since: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" + (f" since {self.since}" if self.since else "")


class Lease:
    """The right to write to the session in `directory`. Raises SessionLocked when a living process has it."""

    def __init__(self, directory: Path, now: str = "") -> None:
        self._file = directory / WRITER
        self._lock = FileLock(str(directory / LOCK), timeout=0, mode=0o600, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            holder = _read(self._file)
            who = "another process" if holder is None else "this process" if _here(holder) else str(holder)
            raise SessionLocked(
                f"{directory}: {who} writes to this session; close it there, or fork the session to go on beside it"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise SessionError(
                f"{directory}: the session cannot be opened for writing ({error}); nova_nb.open_session reads it without"
            ) from error
        self.dead = _read(self._file)
        """the writer that ended without closing the session, or None"""
        try:
            self._file.write_bytes(msgspec.json.encode(Writer(os.getpid(), socket.gethostname(), now)))
        except OSError as error:
            self._lock.release()
            raise SessionError(f"{directory}: the session cannot be opened for writing ({error.strerror})") from error

    def release(self) -> None:
        with suppress(OSError):
            self._file.unlink()
        self._lock.release()


def _read(file: Path) -> Writer | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Writer)
    except (OSError, msgspec.DecodeError):
        return None


def _here(writer: Writer) -> bool:
    return writer.pid == os.getpid() and writer.host == socket.gethostname()
