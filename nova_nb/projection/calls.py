"""Calls of a request with their results: what was read, written, searched and run.

Knows: the names that Nova's tools and the common agents give to these four kinds, and which
argument is the path. A tool it does not know is of kind "other" and no rule touches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .pieces import Piece
from .repair import Message

_KINDS = {
    "read": {"read_file", "read", "view", "cat", "read_many_files", "open_file", "notebookread"},
    "write": {"write_file", "patch_file", "write", "edit", "multiedit", "replace", "apply_patch", "create", "str_replace",
              "insert", "notebookedit", "str_replace_editor", "str_replace_based_edit_tool"},
    "search": {"search", "grep", "glob", "list_files", "ls", "find", "search_file_content", "websearch", "codesearch"},
    "run": {"run_command", "bash", "shell", "exec_command", "run_shell_command", "execute_bash", "terminal"},
}  # fmt: skip
_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names}
_PATHS = ("path", "file_path", "filePath", "filename", "notebook_path", "absolute_path")


class Call(msgspec.Struct, frozen=True):
    """A call and, where it has one, its result. `at` is the index of the calling message."""

    id: str
    name: str
    kind: str
    """"read" | "write" | "search" | "run" | "other" """
    arguments: dict[str, Any]
    at: int
    use: Piece
    result: Piece | None = None
    result_at: int = -1

    @property
    def path(self) -> str:
        """The file it names, or ""."""
        return next((v for k in _PATHS if isinstance(v := self.arguments.get(k), str)), "")

    @property
    def failed(self) -> bool:
        return self.result is not None and bool(self.result.block.get("is_error"))

    @property
    def done(self) -> bool:
        """Answered without an error by a real result."""
        return self.result is not None and not self.failed and self.result.state != "repair"

    @property
    def partial(self) -> bool:
        """Whether it asked for a part of the file."""
        return any(self.arguments.get(k) for k in ("offset", "limit", "start", "end", "view_range", "start_line", "end_line"))


def kind_of(name: str) -> str:
    """
    >>> kind_of("read_file"), kind_of("Bash"), kind_of("mcp__jira__search")
    ('read', 'run', 'other')
    """
    return _BY_NAME.get(name.lower(), "other")


def calls_of(messages: Sequence[Message]) -> list[Call]:
    """All calls in the order of the request."""
    out: list[Call] = []
    where: dict[str, int] = {}
    for i, message in enumerate(messages):
        for piece in message:
            block = piece.block
            if block.get("type") == "tool_use":
                where[block.get("id", "")] = len(out)
                arguments = block.get("input") if isinstance(block.get("input"), dict) else {}
                name = block.get("name") or ""
                out.append(Call(block.get("id", ""), name, kind_of(name), arguments or {}, i, piece))
            elif block.get("type") == "tool_result" and block.get("tool_use_id", "") in where:
                n = where[block["tool_use_id"]]
                out[n] = msgspec.structs.replace(out[n], result=piece, result_at=i)
    return out


def grouped(pieces: Sequence[Piece]) -> list[Message]:
    """Pieces as messages: adjacent pieces of one message belong together."""
    out: list[Message] = []
    for piece in pieces:
        if out and (out[-1][0].message, out[-1][0].role) == (piece.message, piece.role):
            out[-1].append(piece)
        else:
            out.append([piece])
    return out


def latest_turn(messages: Sequence[Message]) -> int:
    """Index of the last message in which a person spoke; 0 when there is none."""
    for i in range(len(messages) - 1, -1, -1):
        first = messages[i][0]
        if first.role == "user" and first.state == "whole" and first.block.get("type") != "tool_result":
            return i
    return 0
