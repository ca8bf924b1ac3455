"""Calls of a request with their results: what was read, written, searched and run.

Knows: the names that Nova's tools and the common agents give to these four kinds, and which
argument is the path. A tool it does not know is of kind "other" and no rule touches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
_PARTS = ("offset", "limit", "start", "end", "view_range", "start_line", "end_line")


class Call(msgspec.Struct, frozen=True, gc=False):
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
    path: str = ""
    """the file it names"""
    failed: bool = False
    done: bool = False
    """answered without an error by a real result"""
    partial: bool = False
    """whether it asked for a part of the file"""


def kind_of(name: str) -> str:
    """
    >>> kind_of("read_file"), kind_of("Bash"), kind_of("mcp__jira__search")
    ('read', 'run', 'other')
    """
    return _BY_NAME.get(name.lower(), "other")


def newest_first(messages: Sequence[Message], first: int = 0) -> Iterator[Call]:
    """The calls from the end of the request backwards, so that a search may stop early. `first`: index of the first message."""
    results: dict[str, tuple[Piece, int]] = {}
    for i in range(len(messages) - 1, -1, -1):
        for piece in reversed(messages[i]):
            block = piece.block
            kind = block.get("type")
            if kind == "tool_result":
                results.setdefault(block.get("tool_use_id", ""), (piece, first + i))
            elif kind == "tool_use":
                id, name, arguments = block.get("id", ""), block.get("name") or "", block.get("input")
                arguments = arguments if isinstance(arguments, dict) else {}
                result, at = results.pop(id, (None, -1))
                failed = result is not None and bool(result.block.get("is_error"))
                done = result is not None and not failed and result.state != "repair"
                partial = any(map(arguments.get, _PARTS))
                yield Call(
                    id, name, kind_of(name), arguments, first + i, piece, result, at, _path(arguments), failed, done, partial
                )


def _path(arguments: dict[str, Any]) -> str:
    for key in _PATHS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
    return ""


def calls_of(messages: Sequence[Message], first: int = 0) -> list[Call]:
    """All calls in the order of the request. `first` is the index in the request of the first of these messages."""
    return list(newest_first(messages, first))[::-1]


def grouped(pieces: Sequence[Piece]) -> list[Message]:
    """Pieces as messages: adjacent pieces of one message belong together."""
    out: list[Message] = []
    last: Piece | None = None
    for piece in pieces:
        if last is not None and last.message == piece.message and last.role == piece.role:
            out[-1].append(piece)
        else:
            out.append([piece])
        last = piece
    return out


def latest_turn(messages: Sequence[Message]) -> int:
    """Index of the last message in which a person spoke; 0 when there is none."""
    for i in range(len(messages) - 1, -1, -1):
        first = messages[i][0]
        if first.role == "user" and first.state == "whole" and first.block.get("type") != "tool_result":
            return i
    return 0
