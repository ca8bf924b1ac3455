"""The write end of a log: one JSON line an event, only ever appended.

Knows: how an event becomes a line, when the line is safe, and how a failed write leaves no half
line. Does not know what events mean, nor who may write (`lease`). Lines are read by `reading`.

A line is the event's compact JSON with the CRC-32 of all bytes before it as its last member:

    {"type":"message_appended","id":"m1",…,"crc":"0a1b2c3d"}\\n

Policies (`ContextSettings.fsync`) say when `append` returns:

    every     each line is on the disk
    durable   lines that acknowledge something are on the disk (see DURABLE); the others ride along with the next
    os        each line is with the operating system: safe when the process dies, not when the power does
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from ..errors import LogWriteError, UsageError
from .events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    MessageAppended,
    SessionStarted,
    ToolStarted,
    from_json,
    to_json,
)
from .lines import clean
from .reading import read

__all__ = ["DURABLE", "POLICIES", "Journal", "encode", "read"]

POLICIES = ("durable", "every", "os")

DURABLE = (MessageAppended, CompactionBoundaryCreated, BranchSelected, ToolStarted, SessionStarted)
"""What a person or a tool was told has happened: words, boundaries, the head, and that a tool's effects may exist."""

# fdatasync also writes the new length, which is all that an append changes beside the data; macOS has only fsync
_sync = getattr(os, "fdatasync", os.fsync)


def encode(event: Event) -> tuple[Event, bytes]:
    """The event as it will be read back, and its line. Lone surrogates become U+FFFD, for a line is UTF-8."""
    try:
        body = to_json(event)
    except UnicodeEncodeError:
        body = msgspec.json.encode(clean(msgspec.to_builtins(event)))
        event = from_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"event {event.id!r} cannot be written as JSON ({error}); give plain lists, dicts, texts and numbers"
        ) from error
    body = body[:-1]
    return event, b'%b,"crc":"%08x"}\n' % (body, crc32(body))


class Journal:
    """Appends events to `path`. `size` is the length of the whole lines in bytes, `at` where the last event begins."""

    def __init__(self, path: str | os.PathLike[str], policy: str = "durable") -> None:
        if policy not in POLICIES:
            raise UsageError(f"there is no fsync policy {policy!r}; choose one of {', '.join(POLICIES)}")
        self.path = Path(path)
        self.policy = policy
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = self.at = os.fstat(self._fd).st_size
        # a torn last line stays where it is; a line end seals it off from the next event
        self._seal = b"" if self.size == 0 or os.pread(self._fd, 1, self.size - 1) == b"\n" else b"\n"
        self._broken = ""

    def append(self, event: Event) -> Event:
        """Write one event with one write and make it as safe as the policy says; returns it as it will be read back.

        Raises LogWriteError when the disk refuses: the log is then as long as it was.
        """
        if self._broken:
            raise LogWriteError(f"{self.path}: {self._broken}; free or repair the disk, then resume the session")
        event, line = encode(event)
        data = self._seal + line if self._seal else line
        before = self.size, self.at
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            # before waiting for the disk: an interrupt there must not forget a line that is in the file
            self.at, self.size = self.size + len(self._seal), self.size + len(data)
            if self.policy == "every" or (self.policy == "durable" and isinstance(event, DURABLE)):
                self._sync()
        except OSError as error:
            self.size, self.at = before
            self._cut(error)
            raise LogWriteError(
                f"{self.path}: event {event.id} was not written ({error.strerror}); "
                "the log is whole up to the event before it; free space or repair the disk, then ask again"
            ) from error
        self._seal = b""
        return event

    def close(self) -> None:
        """Write what the policy left with the operating system, and release the file."""
        if self._fd >= 0:
            if not self._broken and self.policy != "os":
                with suppress(OSError):
                    _sync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _sync(self) -> None:
        try:
            _sync(self._fd)
        except OSError:
            # after a failed fsync the kernel may have dropped the pages and call the next one a success
            self._broken = "the disk failed to keep what was written"
            raise

    def _cut(self, error: OSError) -> None:
        """Take back the part of a line that was written; nobody was told of it."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self._seal = b"\n" if os.fstat(self._fd).st_size > self.size else self._seal
            self._broken = f"the log could not be written ({error.strerror}) nor cut back to its last whole line"
