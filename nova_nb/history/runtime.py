"""State beside the conversation: what was read, used, allowed, and where the agent stands (R6.3).

Knows: the fields, when a checkpoint is due, and how what was recorded differs from what is there
now. Does not run or adopt anything: a difference is told, never acted on.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from .events import Event, Note, RuntimeStateCheckpointed
from .live import LiveLog

FILES = 20
"""files read last that are remembered; five of them come back after a compaction (R5.4)"""


class FileRead(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was when the agent read it. `path` is relative to the workspace where it lies inside."""

    path: str
    sha256: str = ""
    size: int = 0


class RuntimeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything of a session that is neither words nor files of its log."""

    files: tuple[FileRead, ...] = ()
    """files read last, the newest at the end"""
    tools: tuple[str, ...] = ()
    """names of tools used, in the order of their first use"""
    mode: str = ""
    """how commands get their permission"""
    cwd: str = ""
    """the working directory, relative to the workspace where it lies inside ("." is the workspace)"""
    branch: str = ""
    """git branch, or the commit of a detached head"""
    worktree: str = ""
    """the directory of the git worktree, in the same way"""
    skills: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    """what the person allowed for this session"""
    memory: tuple[str, ...] = ()
    """marks of the instructions and memories that were injected"""
    mcp: str = ""
    """loading mode of the MCP tools, chosen once"""
    extra: dict[str, Any] = {}

    def with_file(self, file: FileRead) -> RuntimeState:
        """The state after a file was read."""
        kept = [f for f in self.files if f.path != file.path]
        return msgspec.structs.replace(self, files=(*kept, file)[-FILES:])

    def with_tool(self, name: str) -> RuntimeState:
        """The state after a tool was used."""
        return self if name in self.tools else msgspec.structs.replace(self, tools=(*self.tools, name))


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not as it was recorded. `now` is "" when it is gone.

    >>> print(Difference("branch", "", "main", "feature"), Difference("file", "a.py", "0c1d", "77aa"), sep="; ")
    branch: was main, is feature; a.py changed since it was read
    """

    what: str
    """"cwd" | "worktree" | "branch" | "mode" | "file" """
    name: str
    recorded: str
    now: str

    def __str__(self) -> str:
        name, recorded, now = (text if text.isprintable() else repr(text) for text in (self.name, self.recorded, self.now))
        if self.what == "file":
            return f"{name} {'changed' if now else 'is gone'} since it was read"
        return f"{'directory' if self.what == 'cwd' else self.what}: was {recorded or 'none'}, is {now or 'gone'}"


def file_read(path: Path, workspace: Path) -> FileRead:
    """The mark of a file that is being read. Raises OSError when it cannot be."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRead(_name(path, workspace), digest, path.stat().st_size)


def _name(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def git_place(directory: Path) -> tuple[str, str]:
    """Branch (or commit) and worktree directory that hold `directory`, read from git's own files; ("", "") outside git."""
    for root in (directory, *directory.parents):
        dot = root / ".git"
        try:
            if dot.is_file():  # a linked worktree names its own git directory
                dot = root / dot.read_text("utf-8", "replace").partition("gitdir:")[2].strip()
            if not (dot / "HEAD").is_file():
                continue
            head = (dot / "HEAD").read_text("utf-8", "replace").strip()
        except OSError:
            continue
        return head.removeprefix("ref: ").removeprefix("refs/heads/"), str(root)
    return "", ""


def here(state: RuntimeState, cwd: Path, workspace: Path) -> RuntimeState:
    """The state with the directory, branch and worktree as they are at `cwd`."""
    branch, worktree = git_place(cwd)
    place = _name(Path(worktree), workspace) if worktree else ""
    return msgspec.structs.replace(state, cwd=_name(cwd, workspace), branch=branch, worktree=place)


def recorded(events: Iterable[Event]) -> RuntimeState | None:
    """The state of the last checkpoint; fields that this Nova does not know are left out, wrong ones give None."""
    last = None
    for event in events:
        if isinstance(event, RuntimeStateCheckpointed):
            last = event
    return _state_of(last)


def _state_of(event: RuntimeStateCheckpointed | None) -> RuntimeState | None:
    try:
        return None if event is None else msgspec.convert(event.state, RuntimeState)
    except msgspec.ValidationError:
        return None


def checkpoint(live: LiveLog, state: RuntimeState) -> Event | None:
    """Append the state when it differs from the last checkpoint; returns the event, or None when nothing changed."""
    if state == _state_of(live.last(RuntimeStateCheckpointed)):
        return None
    plain = msgspec.json.decode(msgspec.json.encode(state))  # lists, as it is read back
    return live.append(RuntimeStateCheckpointed(id=live.new_id("k"), at=live.now(), state=plain))


def differences(state: RuntimeState, workspace: Path, mode: str = "") -> list[Difference]:
    """What is no longer as the checkpoint has it: directory, worktree or branch, mode (where one is given), each file read last.

    A workspace that moved as a whole is no difference: places are recorded as seen from it.
    """
    out: list[Difference] = []
    cwd = workspace / state.cwd
    if not cwd.is_dir():
        out.append(Difference("cwd", "", state.cwd, ""))
    elif state.cwd:
        at = here(state, cwd, workspace)
        if state.worktree != at.worktree:
            out.append(Difference("worktree", "", state.worktree, at.worktree))
        elif state.branch != at.branch:
            out.append(Difference("branch", "", state.branch, at.branch))
    if state.mode and mode and state.mode != mode:
        out.append(Difference("mode", "", state.mode, mode))
    for file in state.files:
        now = _mark_now(file, workspace)
        if file.sha256 and now is not None and now != file.sha256:
            out.append(Difference("file", file.path, file.sha256[:12], now[:12]))
    return out


def _mark_now(file: FileRead, workspace: Path) -> str | None:
    """The file's mark as it is now, "" when it is gone; None for what is no file of the workspace: the log may name
    anything, and only what the tools can reach is opened."""
    try:
        path = (workspace / file.path).resolve()
        if not path.is_relative_to(workspace.resolve()):
            return None
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return ""
        return file_read(path, workspace).sha256 if status.st_size == file.size else f"{status.st_size} bytes"
    except (OSError, ValueError, RuntimeError):
        return ""


def restore(live: LiveLog, workspace: Path, mode: str = "") -> tuple[RuntimeState, list[Difference]]:
    """The recorded state and what differs from it now, for a resume. Differences enter the log as one event, once."""
    state = _state_of(live.last(RuntimeStateCheckpointed)) or RuntimeState()
    found = differences(state, workspace, mode)
    if found:
        said = live.last(Note, "runtime_differs")
        values = [msgspec.to_builtins(d) for d in found]
        if said is None or said.meta.get("differences") != values:
            again = "; read changed files again before relying on them" if any(d.what == "file" for d in found) else ""
            message = "; ".join(map(str, found)) + again
            meta = {"differences": values}
            live.append(Note(id=live.new_id("n"), at=live.now(), kind="runtime_differs", message=message, meta=meta))
    return state, found
