"""Tool results that were written to files: `tool-results/` inside a session's directory.

Knows: file names, whole writes, ranges, and whether a file is still what it was. Does not know
which results are too large (`projection.spill`) or what events say about them.

An artifact's name in events and placeholders is relative to the session directory
(`tool-results/toolu_1.txt`), so it keeps its meaning when the directory moves or is forked. Ids
of tool calls come from models and are hostile: no name leaves the directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec

from ..errors import SessionError, UsageError
from .lines import well_formed

FOLDER = "tool-results"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Excerpt(msgspec.Struct, frozen=True):
    """A range of an artifact: lines `first` to `last` of the file (1-based; `last < first` when there are none)."""

    text: str
    first: int
    last: int
    more: bool
    """whether the file goes on after `last`, or a line was cut at the character limit"""


def file_name(tool_use_id: str) -> str:
    """A file name for a tool call's id: the id itself when it is plain, else its safe part and a hash.

    >>> file_name("toolu_01AB")
    'toolu_01AB.txt'
    >>> file_name("../../etc/passwd")
    'etc-passwd-3754d6cb3a38.txt'
    """
    if _SAFE.fullmatch(tool_use_id):
        return f"{tool_use_id}.txt"
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", tool_use_id)[:60].strip("-") or "id"
    return f"{plain}-{_hash(tool_use_id)[:12]}.txt"


class Artifacts:
    """The written results of one session.

    `past` are the directories of the sessions this one was forked from, nearest first: what was
    written there keeps its meaning here.
    """

    def __init__(self, directory: str | os.PathLike[str], past: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.directory = Path(directory)
        self.past = tuple(Path(p) for p in past)

    def write(self, tool_use_id: str, text: str) -> str:
        """Write a result whole and return its artifact name. Raises OSError when the disk refuses; then nothing is left.

        An id that comes again with other text gets a name of its own: what an earlier placeholder points at never changes.
        """
        data = well_formed(text).encode()
        name = file_name(tool_use_id)
        folder = self.directory / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        if (folder / name).exists():
            if (folder / name).read_bytes() == data:
                return f"{FOLDER}/{name}"
            name = f"{name.removesuffix('.txt')}-{hashlib.sha256(data).hexdigest()[:12]}.txt"
        partial = folder / f".{name}.partial"
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(folder / name)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise
        return f"{FOLDER}/{name}"

    def path(self, artifact: str) -> Path:
        """Where an artifact lies (or would lie, if it is missing). Raises UsageError for a name that leaves its directory."""
        found = [self._inside(root, artifact) for root in (self.directory, *self.past)]
        return next((p for p in found if p.is_file()), found[0])

    def state(self, artifact: str, sha256: str = "") -> str:
        """ "present", "missing", or "changed" (the text is not the one with this SHA-256; "" is not compared)."""
        path = self.path(artifact)
        if not path.is_file():
            return "missing"
        if not sha256:
            return "present"
        with path.open("rb") as file:
            return "present" if hashlib.file_digest(file, "sha256").hexdigest() == sha256 else "changed"

    def read(self, artifact: str, first: int = 1, lines: int | None = None, chars: int = 50_000) -> Excerpt:
        """Lines `first`, `first + 1`, … of an artifact, at most `lines` of them and `chars` characters.

        Reads only up to the end of the range. Raises SessionError when the file is missing.
        """
        if first < 1 or chars < 1 or (lines is not None and lines < 0):
            raise UsageError("a range starts at line 1 and takes a positive number of characters")
        try:
            with self.path(artifact).open("r", encoding="utf-8", errors="replace", newline="\n") as file:
                return _excerpt(file, first, lines, chars)
        except OSError as error:
            raise SessionError(
                f"{artifact}: the written tool result cannot be read ({error.strerror}); run the tool again to get it back"
            ) from error

    def adopt(self, artifact: str) -> bool:
        """Give an artifact of an ancestor a second name here; False when it is nowhere (a dead pointer) or outside."""
        try:
            path = self.path(artifact)
            own = self._inside(self.directory, artifact)
        except UsageError:
            return False
        if path == own or not path.is_file():
            return path.is_file()
        own.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            os.link(path, own)
        except OSError:  # another file system, or one without links
            shutil.copyfile(path, own)
        return True

    def names(self) -> list[str]:
        """The artifacts in this session's own directory, sorted."""
        folder = self.directory / FOLDER
        return sorted(f"{FOLDER}/{p.name}" for p in folder.glob("*.txt")) if folder.is_dir() else []

    def _inside(self, root: Path, artifact: str) -> Path:
        folder = (root / FOLDER).resolve()
        try:
            path = (root / artifact).resolve()
        except (OSError, ValueError) as error:
            raise UsageError(f"{artifact!r} is no name of a written tool result") from error
        if path.parent != folder:
            raise UsageError(f"{artifact!r} points outside {FOLDER}/ of its session and is not opened")
        return path


def text_hash(text: str) -> str:
    """SHA-256 of a result as it is written, in hex: what `ToolResultExternalized.sha256` holds."""
    return _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(well_formed(text).encode()).hexdigest()


def _excerpt(file: IO[str], first: int, lines: int | None, chars: int) -> Excerpt:
    for _ in islice(file, first - 1):
        pass
    out: list[str] = []
    room = chars
    while room and (lines is None or len(out) < lines):
        line = file.readline(room + 1)
        if not line:
            return Excerpt("".join(out), first, first + len(out) - 1, False)
        out.append(line[:room])
        if len(line) > room:
            return Excerpt("".join(out), first, first + len(out) - 1, True)
        room -= len(line)
    return Excerpt("".join(out), first, first + len(out) - 1, bool(file.readline(1)))
