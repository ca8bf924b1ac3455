"""The folder an agent works in, and the only paths its tools can reach.

Knows: which path is inside. Does not know any tool. A path is judged after every symlink in it
has been followed, so neither `..`, nor a link, nor a link among its parents leads out.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

READ_CHARS = 40_000
"""one read shows at most this much: below the 50,000 at which a result is written to a file (R3.1), so that
reading a stored result back, which is exempt, stays within what any other result may take"""


class ToolFailure(Exception):
    """A tool could not do what was asked. Its text goes back to the model as a result; it is no error of Nova."""


class Workspace:
    """A root that may be read and written, and a session folder whose `tool-results/` may be read.

    >>> Workspace(".").find("../../etc/passwd")
    Traceback (most recent call last):
    ...
    nova_nb.agent.workspace.ToolFailure: ../../etc/passwd is outside the workspace
    """

    def __init__(self, root: str | os.PathLike[str], session: Path | None = None, read_chars: int = READ_CHARS) -> None:
        self.read_chars = read_chars
        self.root = Path(os.path.realpath(root))
        self.session = None if session is None else Path(os.path.realpath(session))
        self.results = None if self.session is None else self.session / "tool-results"

    def find(self, path: str, *, write: bool = False) -> Path:
        """The real path behind `path`, which is relative to the root, or absolute. Raises ToolFailure if it lies outside.

        A path of the session folder, as a placeholder names it (`tool-results/<id>.txt`), is found there for reading.
        """
        if "\0" in path:
            raise ToolFailure("a path cannot hold a NUL character")
        real = _real(self.root / path)
        if write:
            if not real.is_relative_to(self.root):
                raise ToolFailure(f"{path} is outside the workspace")
            if ".git" in real.relative_to(self.root).parts:
                raise ToolFailure(f"{path} is git's own; only git writes there")
            if self.session is not None and real.is_relative_to(self.session):
                raise ToolFailure(f"{path} belongs to the session's log, which no tool changes")
            return real
        if self.session is not None and self.results is not None and not real.exists():
            real = stored if (stored := _real(self.session / path)).is_relative_to(self.results) else real
        if real.is_relative_to(self.root) or (self.results is not None and real.is_relative_to(self.results)):
            return real
        raise ToolFailure(f"{path} is outside the workspace")

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

    def spilled(self, path: str) -> bool:
        """Whether `path` names a stored tool result: reading one back is exempt from spilling (R3.3)."""
        try:
            return self.results is not None and self.find(path).is_relative_to(self.results)
        except ToolFailure:
            return False

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
