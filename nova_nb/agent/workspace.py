"""The folder an agent works in, and the only paths its tools can reach.

Knows: which path is inside. Does not know any tool. A path is judged after every symlink in it
has been followed, so neither `..`, nor a link, nor a link among its parents leads out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

RESULTS = "tool-results"
READ_CHARS = 40_000
"""one read shows at most this much: below the 50,000 at which a result is written to a file (R3.1), so that
reading a stored result back, which is exempt, stays within what any other result may take"""


class ToolFailure(Exception):
    """A tool could not do what was asked. Its text goes back to the model as a result; it is no error of Nova."""


class Workspace:
    """A root that may be read and written, and session folders whose `tool-results/` may be read.

    `sessions` are the session's own folder and those of the sessions it was forked from, nearest first.

    >>> Workspace(".").find("../../etc/passwd")
    Traceback (most recent call last):
    ...
    nova_nb.agent.workspace.ToolFailure: ../../etc/passwd is outside the workspace
    """

    def __init__(
        self, root: str | os.PathLike[str], sessions: Sequence[str | os.PathLike[str]] = (), read_chars: int = READ_CHARS
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.sessions = tuple(Path(os.path.realpath(session)) for session in sessions)
        self.read_chars = read_chars

    def find(self, path: str, *, write: bool = False) -> Path:
        """The real path behind `path`, which is relative to the root, or absolute. Raises ToolFailure if it lies outside.

        A stored result is found for reading by the name its placeholder gives, `tool-results/<id>.txt`.
        """
        if "\0" in path:
            raise ToolFailure("a path cannot hold a NUL character")
        real = _real(self.root / path)
        if not write and not (real.is_relative_to(self.root) and real.exists()):
            for session in self.sessions:
                stored = _real(session / path)
                if stored.is_relative_to(session / RESULTS) and stored.exists():
                    return stored
        if not real.is_relative_to(self.root):
            raise ToolFailure(f"{path} is outside the workspace")
        if write and ".git" in real.relative_to(self.root).parts:
            raise ToolFailure(f"{path} is git's own; only git writes there")
        if write and any(real.is_relative_to(session) for session in self.sessions):
            raise ToolFailure(f"{path} belongs to the session's log, which no tool changes")
        return real

    def file(self, path: str) -> Path:
        """An existing regular file. Pipes and devices are refused: reading one could wait for ever."""
        real = self.find(path)
        try:
            mode = real.stat().st_mode
        except OSError as error:
            raise ToolFailure(f"{path}: {_why(error)}") from None
        if stat.S_ISDIR(mode):
            raise ToolFailure(f"{path} is a folder; list_files shows what is in it")
        if not stat.S_ISREG(mode):
            raise ToolFailure(f"{path} is no regular file")
        return real

    def folder(self, path: str) -> Path:
        """An existing folder."""
        real = self.find(path)
        if not real.is_dir():
            raise ToolFailure(f"{path} is no folder" if real.exists() else f"{path}: there is no such folder")
        return real

    def stored(self, path: str) -> bool:
        """Whether `path` names a stored tool result: reading one back is exempt from being stored again (R3.3)."""
        try:
            real = self.find(path)
        except ToolFailure:
            return False
        return any(real.is_relative_to(session / RESULTS) for session in self.sessions)

    def shown(self, real: Path) -> str:
        """The path as a person and a model see it: relative to the root, with forward slashes."""
        return real.relative_to(self.root).as_posix() if real.is_relative_to(self.root) else str(real)


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise ToolFailure(f"{path} cannot be followed ({error.strerror})") from None


def _why(error: OSError) -> str:
    return "there is no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
