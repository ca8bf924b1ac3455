"""The eight tools of SPEC 10.1, confined to the workspace.

Knows: what each tool takes, does and says. Does not know the loop, the log, or who may run a
command (`permissions`). A tool gives a result, never an exception: what went wrong is a text with
`is_error`, because the model can do something about it.

Each tool is a frozen value, its fields are its parameters. The JSON schema a model is given is
made from the fields, so the two cannot disagree.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from . import process
from . import search as searching
from .workspace import ToolFailure, Workspace

READ_BYTES = 64_000_000
LISTED = 1_000
SEARCH_SECONDS = 20.0


class Result(msgspec.Struct, frozen=True):
    """What a tool says to the model."""

    text: str
    is_error: bool = False


class Tool(msgspec.Struct, frozen=True):
    """One tool as the loop sees it: `run` takes the model's input as it came and does all the checking."""

    name: str
    description: str
    input_schema: dict[str, Any]
    run: Callable[[dict[str, Any], Workspace], Awaitable[Result]]
    asks: Callable[[dict[str, Any]], str | None] = lambda _input: None
    """the command that a person must allow first, or None"""

    @property
    def schema(self) -> dict[str, Any]:
        """As a request carries it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the tools: fields are parameters, the docstring is the description."""

    name: ClassVar[str]

    async def run(self, workspace: Workspace) -> str:
        raise NotImplementedError


class ReadFile(Call, frozen=True):
    """Read a text file, whole or a range of lines. Long files are shown in parts; the last line says how to read on."""

    name: ClassVar[str] = "read_file"
    path: Annotated[str, Meta(description="relative to the workspace, or the path of a stored tool result")]
    offset: Annotated[int, Meta(ge=1, description="first line, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, description="number of lines")] = 2_000
    column: Annotated[int, Meta(ge=1, description="first character of the first line, for very long lines")] = 1

    async def run(self, workspace: Workspace) -> str:
        path = workspace.file(self.path)
        if (size := path.stat().st_size) > READ_BYTES:
            raise ToolFailure(f"{self.path} has {size:,} bytes, over {READ_BYTES:,}; search it, or cut it with a command")
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            raise ToolFailure(f"{self.path} is binary ({len(data):,} bytes)")
        text = data.decode("utf-8", "replace")
        if self.offset == self.column == 1 and len(text) <= workspace.read_chars and text.count("\n") <= self.limit:
            return text
        lines = text.split("\n")
        total = len(lines) - (lines[-1] == "")
        if self.offset > total:
            raise ToolFailure(f"{self.path} has {total:,} lines; there is no line {self.offset:,}")
        part = lines[self.offset - 1 : min(self.offset - 1 + self.limit, total)]
        part[0] = part[0][self.column - 1 :]
        return self._fit(part, total, workspace.read_chars)

    def _fit(self, part: list[str], total: int, room: int) -> str:
        """As many of the lines as there is room for, with a last line that says where to read on."""
        left, shown = room, 0
        for line in part:
            if len(line) + 1 > left:
                break
            left -= len(line) + 1
            shown += 1
        if shown == 0:
            more = f"read on with offset={self.offset} column={self.column + room}"
            return f"{part[0][:room]}\n[line {self.offset} of {total} goes on; {more}]"
        last = self.offset + shown - 1
        rest = f"; read on with offset={last + 1}" if last < total else ""
        return "\n".join(part[:shown]) + f"\n[lines {self.offset}-{last} of {total}{rest}]"


class WriteFile(Call, frozen=True):
    """Write a text file whole, with the folders above it. Replaces what was there."""

    name: ClassVar[str] = "write_file"
    path: Annotated[str, Meta(description="relative to the workspace")]
    content: Annotated[str, Meta(description="the whole text")]

    async def run(self, workspace: Workspace) -> str:
        path = workspace.find(self.path, write=True)
        if path.is_dir():
            raise ToolFailure(f"{self.path} is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.exists()
        _write(path, self.content)
        return f"{'replaced' if known else 'created'} {workspace.shown(path)} ({_lines(self.content)})"


class PatchFile(Call, frozen=True):
    """Replace one passage of a file. `old` must stand there exactly once, white space included."""

    name: ClassVar[str] = "patch_file"
    path: Annotated[str, Meta(description="relative to the workspace")]
    old: Annotated[
        str, Meta(min_length=1, description="the passage as it stands in the file, with enough around it to be unique")
    ]
    new: Annotated[str, Meta(description="what stands there afterwards")]

    async def run(self, workspace: Workspace) -> str:
        workspace.find(self.path, write=True)
        path = workspace.file(self.path)
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailure(f"{self.path} is no UTF-8 text; a patch would damage it") from None
        count = text.count(self.old)
        if count != 1:
            found = (
                "is not in the file; read it again" if count == 0 else f"is there {count} times; give more of what is around it"
            )
            raise ToolFailure(f"{self.path}: the passage {found}")
        _write(path, text.replace(self.old, self.new))
        line = text[: text.index(self.old)].count("\n") + 1
        return f"patched {workspace.shown(path)} at line {line}"


class ListFiles(Call, frozen=True):
    """List the files of a folder and below, one path a line."""

    name: ClassVar[str] = "list_files"
    path: Annotated[str, Meta(description="folder, relative to the workspace")] = "."
    glob: Annotated[str, Meta(description="only paths or names like this, for example *.py")] = "*"

    async def run(self, workspace: Workspace) -> str:
        start = workspace.folder(self.path)
        found: list[str] = []
        for path in searching.files(str(workspace.root), str(start), self.glob):
            if len(found) == LISTED:
                return "\n".join([*found, f"[the first {LISTED}; give a folder or a glob for fewer]"])
            found.append(path)
        return "\n".join(found) or "no files"


class Search(Call, frozen=True):
    """Find lines by a regular expression (or plain text) in the files of the workspace."""

    name: ClassVar[str] = "search"
    pattern: Annotated[str, Meta(min_length=1, description="Python regular expression; what is none is searched as plain text")]
    path: Annotated[str, Meta(description="folder to search in")] = "."
    glob: Annotated[str, Meta(description="only files like this, for example *.py")] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="lines shown")] = 100

    async def run(self, workspace: Workspace) -> str:
        start = workspace.find(self.path)
        if start.is_file():
            start, glob = workspace.file(self.path).parent, start.name
        else:
            start, glob = workspace.folder(self.path), self.glob
        script = Path(searching.__file__)
        argv = [sys.executable, "-I", str(script), str(workspace.root), str(start), self.pattern, glob, str(self.limit)]
        done = await process.run(argv, workspace.root, SEARCH_SECONDS)
        if done.code is None:
            raise ToolFailure(f"the search took over {SEARCH_SECONDS:.0f} s; use a simpler pattern or a smaller folder")
        if done.code != 0:
            raise ToolFailure(f"the search failed: {done.output.strip()[-300:]}")
        return done.output.rstrip("\n")


class RunCommand(Call, frozen=True):
    """Run a shell command in the workspace. Gives its output and exit code. A person may have to allow it first."""

    name: ClassVar[str] = "run_command"
    command: Annotated[str, Meta(min_length=1, description="a command for sh")]
    timeout: Annotated[int, Meta(ge=1, le=600, description="seconds until it is killed")] = 120

    async def run(self, workspace: Workspace) -> str:
        if "\0" in self.command:
            raise ToolFailure("a command cannot hold a NUL character")
        done = await process.run(["/bin/sh", "-c", self.command], workspace.root, self.timeout)
        output = done.output.rstrip("\n") + (f"\n[output cut at {process.MAX_OUTPUT:,} bytes]" if done.cut else "")
        if done.code is None:
            raise ToolFailure(f"{output}\n[killed after {self.timeout} s]".lstrip("\n"))
        if done.code != 0:
            how = f"exit code {done.code}" if done.code > 0 else f"ended by signal {-done.code}"
            raise ToolFailure(f"{output}\n[{how}]".lstrip("\n"))
        return output or "[no output, exit code 0]"


class GitStatus(Call, frozen=True):
    """Show the branch and the changed files of the workspace."""

    name: ClassVar[str] = "git_status"

    async def run(self, workspace: Workspace) -> str:
        return await _git(workspace, "status", "--short", "--branch", "--", ".")


class GitDiff(Call, frozen=True):
    """Show uncommitted changes, of all files or of one path."""

    name: ClassVar[str] = "git_diff"
    path: Annotated[str, Meta(description="file or folder")] = "."
    staged: Annotated[bool, Meta(description="what is in the index, not in the working tree")] = False

    async def run(self, workspace: Workspace) -> str:
        path = workspace.shown(workspace.find(self.path))
        cached = ["--cached"] if self.staged else []
        return await _git(workspace, "diff", "--no-ext-diff", "--no-textconv", *cached, "--", path) or "no changes"


async def _git(workspace: Workspace, *words: str) -> str:
    """git, with everything off that a repository's own settings could make it run."""
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks", *words]
    try:
        done = await process.run(argv, workspace.root, 30)
    except FileNotFoundError:
        raise ToolFailure("git is not installed") from None
    if done.code != 0:
        raise ToolFailure(done.output.strip() or "git did not answer within 30 s")
    return done.output.rstrip("\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")


def _lines(text: str) -> str:
    count = text.count("\n") + (text != "" and not text.endswith("\n"))
    return f"{count} {'line' if count == 1 else 'lines'}"


def tool(call: type[Call]) -> Tool:
    """A `Tool` from a class of calls: its name, its docstring, the schema of its fields, its checked run."""
    schema = msgspec.json.schema(call)["$defs"][call.__name__]
    schema = {k: v for k, v in schema.items() if k not in ("title", "description")}

    async def run(input: dict[str, Any], workspace: Workspace) -> Result:
        try:
            return Result(await msgspec.convert(input, call).run(workspace))
        except msgspec.ValidationError as error:
            return Result(f"{call.name} cannot take this input: {error}", is_error=True)
        except ToolFailure as failure:
            return Result(str(failure), is_error=True)
        except (OSError, UnicodeEncodeError) as error:
            return Result(f"{call.name} failed: {error}", is_error=True)

    return Tool(call.name, " ".join((call.__doc__ or "").split()), schema, run, _command_of if call is RunCommand else _nothing)


def _command_of(input: dict[str, Any]) -> str | None:
    return str(input.get("command", ""))


def _nothing(_input: dict[str, Any]) -> str | None:
    return None


EIGHT: Mapping[str, Tool] = {
    call.name: tool(call) for call in (ReadFile, WriteFile, PatchFile, ListFiles, Search, RunCommand, GitStatus, GitDiff)
}
"""The tools every agent has, by name, in the order in which a request lists them."""
