"""A fork's share of its parent: which bytes, up to which node, and the files that carry them.

Knows: where in a log a node's time ends, and how a directory takes a second name of a file.
Does not know how a session is opened (`library`) or read (`tail`).
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ..errors import UsageError
from .artifacts import Artifacts
from .chain import Node, head_of
from .events import BranchSelected, Event, MessageAppended, ToolResultExternalized
from .reading import PAST, Part, decode
from .tail import Loaded


def place(found: list[Part], loaded: Loaded, at: str | None) -> tuple[list[Part], str | None, int]:
    """Where a fork leaves: the files it shares (nearest first), the node, and the end of the shared bytes in the first.

    Raises UsageError when `at` is no node of the session.
    """
    if at is None:
        head = head_of(loaded.events)
        return found, head if head is not None or len(found) == 1 else found[1].node, whole_lines(found[0])
    for depth, part in enumerate(found):
        left_here = depth + 1 < len(found) and found[depth + 1].node == at
        end = end_of(part, at, left_here)
        if end is not None:
            return found[depth:], at, end
    raise UsageError(f"session {found[0].path.parent.name} has no message {at!r}; take an id from its chain or its branches")


def whole_lines(part: Part) -> int:
    """The length of a file without a torn last line."""
    if not part.end:
        return 0
    with part.path.open("rb") as file, mmap.mmap(file.fileno(), part.end, access=mmap.ACCESS_READ) as data:
        return data.rfind(b"\n") + 1


def end_of(part: Part, node: str, at_start: bool) -> int | None:
    """Where in a file the last thing ends that was logged while `node` was the head; None when it never was.

    `at_start` says whether it is the head when the file begins (a fork begins where it left its parent).
    """
    if not part.end:
        return None
    id = msgspec.json.encode(node)
    with part.path.open("rb") as file, mmap.mmap(file.fileno(), part.end, access=mmap.ACCESS_READ) as data:
        begin = _last(data, 0, b'"id":' + id, lambda e: isinstance(e, Node) and e.id == node)
        again = _last(data, begin or 0, b'"leaf":' + id, lambda e: isinstance(e, BranchSelected) and e.leaf == node)
        if begin is None and again is None and not at_start:
            return None
        end = data.find(b"\n", max(begin or 0, again or 0)) + 1
        while 0 < end < part.end:
            stop = data.find(b"\n", end)
            if stop < 0 or any(isinstance(e, Node | BranchSelected) for e in decode(data[end:stop])[0]):
                break
            end = stop + 1
        return end or part.end


def _last(data: mmap.mmap, low: int, needle: bytes, wanted: Callable[[Event], bool]) -> int | None:
    """Where the last line begins that holds the needle and an event that is wanted."""
    at = len(data)
    while (at := data.rfind(needle, low, at)) >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        if any(wanted(event) for event in decode(data[begin : end if end >= 0 else len(data)])[0]):
            return begin
    return None


def share(shared: list[Part], end: int, directory: Path) -> None:
    """Give the shared logs a second name in the fork's directory."""
    (directory / PAST).mkdir(mode=0o700)
    for n, part in enumerate(shared, 1):
        name = directory / PAST / f"{n}.jsonl"
        try:
            os.link(part.path, name)
        except OSError:  # another file system, or one without links: then the shared bytes are copied
            shutil.copyfile(part.path, name)
            os.truncate(name, end if n == 1 else part.end)


def adopt(artifacts: Artifacts, events: Iterable[Event]) -> None:
    """Give the results that these events point at a second name here, so that they outlive the directory they were written in."""
    names: set[str] = set()
    for event in events:
        if isinstance(event, ToolResultExternalized):
            names.add(event.artifact)
        elif isinstance(event, MessageAppended):
            names.update(externalized(event).values())
    for name in sorted(names):
        artifacts.adopt(name)


def externalized(message: MessageAppended) -> dict[str, str]:
    """The artifacts of a message's results by tool call id, as its `meta` has them."""
    found = message.meta.get("externalized")
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
