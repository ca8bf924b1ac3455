"""State beside the conversation: what was read, used, allowed, and where the agent stands (R6.3).

Knows: the fields, when a checkpoint is due, and how what was recorded differs from what is there
now. Does not run or adopt anything: a difference is told, never acted on.
"""

from __future__ import annotations

import hashlib
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
    """One thing that is not as it was recorded. `now` is "" when it is gone."""

    what: str
    """"cwd" | "branch" | "worktree" | "file" """
    name: str
    recorded: str
    now: str

    def __str__(self) -> str:
        subject = f"{self.what} {self.name}" if self.name else self.what
        return f"{subject}: {'gone' if not self.now else f'was {self.recorded}, is {self.now}'}"


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
    try:
        return None if last is None else msgspec.convert(last.state, RuntimeState)
    except msgspec.ValidationError:
        return None


def checkpoint(live: LiveLog, state: RuntimeState) -> Event | None:
    """Append the state when it differs from the last checkpoint; returns the event, or None when nothing changed."""
    if state == recorded(live.events):
        return None
    values = msgspec.json.decode(msgspec.json.encode(state))  # lists, as it will be read back
    return live.append(RuntimeStateCheckpointed(id=live.new_id("k"), at=live.now(), state=values))


def differences(state: RuntimeState, workspace: Path) -> list[Difference]:
    """What is no longer as the checkpoint has it: directory, worktree and branch, and each file read last."""
    out: list[Difference] = []
    cwd = workspace / state.cwd
    if not cwd.is_dir():
        out.append(Difference("cwd", "", state.cwd, ""))
    elif state.branch or state.worktree:
        now = here(state, cwd, workspace)
        if state.worktree != now.worktree:
            out.append(Difference("worktree", "", state.worktree, now.worktree))
        elif state.branch != now.branch:
            out.append(Difference("branch", "", state.branch, now.branch))
    for file in state.files:
        try:
            digest = file_read(workspace / file.path, workspace).sha256
        except OSError:
            digest = ""
        if file.sha256 and digest != file.sha256:
            out.append(Difference("file", file.path, file.sha256[:12], digest[:12]))
    return out


def restore(live: LiveLog, workspace: Path) -> RuntimeState:
    """The recorded state, for a resume; what differs from what is there now enters the log as one event."""
    state = recorded(live.events) or RuntimeState()
    found = differences(state, workspace)
    if found:
        said = live.last(Note, "runtime_differs")
        values = [msgspec.to_builtins(d) for d in found]
        if said is None or said.meta.get("differences") != values:
            message = "; ".join(map(str, found)) + "; read changed files again before relying on them"
            meta = {"differences": values}
            live.append(Note(id=live.new_id("n"), at=live.now(), kind="runtime_differs", message=message, meta=meta))
    return state
