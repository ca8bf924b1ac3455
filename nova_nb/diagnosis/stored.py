"""Results that an agent wrote to a file of their own: which record points to which file, and what is there now.

Knows: how placeholders name their file, and the folders beside a session that hold such files. A
path in a log is a stranger's word: a file is read only where it lies in the session's own folders;
of any other path Nova asks at most whether it exists and how large it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..history.events import MessageAppended, ToolResultExternalized

if TYPE_CHECKING:
    from ..session import Session

NAMED = re.compile(r"(?:saved to|[Ff]ull output(?: see)?):? ?(?P<path>(?:/|[A-Za-z]:\\|\$TMPDIR/)[^\s\]\)\"<>]+)")
"""How the placeholders of the known agents name the file (Claude Code, opencode, pi, Gemini CLI, OpenHands, Nova)."""

MARKS = ("saved to", "ull output")
"""One of these stands in every text that `NAMED` finds: looking for them first is many times faster."""

FOLDERS = ("tool-results", "tool-output", "tool-outputs", "observations", "spilled-tmp")
MOST_FILES = 5_000
"""Files that are listed in a session's own folders."""
MOST_BYTES = 64_000_000
"""Bytes that are read of one stored result."""


def placeholders(session: Session) -> Iterator[tuple[int, str]]:
    """(position, path as written) for each record whose result was stored outside, in file order."""
    for i, event in enumerate(session.log.events):
        if isinstance(event, ToolResultExternalized):
            yield i, event.artifact
        elif isinstance(event, MessageAppended):
            for block in event.content:
                if block.get("type") == "tool_result":
                    text = result_text(block.get("content"))
                    found = NAMED.search(text) if any(mark in text for mark in MARKS) else None
                    if found:
                        yield i, found["path"].rstrip(".,;")


def own_files(session: Session) -> dict[str, Path]:
    """Files in the session's own folders by name."""
    here = Path(session.path)
    root = here if here.is_dir() else here.parent
    folders = [root / here.stem, root, root.parent]
    found: dict[str, Path] = {}
    for folder in folders:
        for name in FOLDERS:
            place = folder / name
            if not place.is_dir() or place.is_symlink():
                continue
            for n, file in enumerate(sorted(place.rglob("*"))):
                if n >= MOST_FILES:
                    break
                if file.is_file() and not file.is_symlink():
                    found.setdefault(file.name, file)
    return found


def base_name(path: str) -> str:
    """Last part of a path of any system."""
    return PurePosixPath(path.replace("\\", "/")).name


def stored_files(session: Session) -> dict[int, Path]:
    """The file beside the session for each record whose result was stored; records whose file is gone are not in it."""
    named = list(placeholders(session))
    if not named:
        return {}
    files = own_files(session)
    return {i: files[name] for i, path in named if (name := base_name(path)) in files}


def read_stored(path: Path) -> str:
    """The text of a stored result, at most `MOST_BYTES`; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def result_text(content: object) -> str:
    """The text of a result's content, a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return ""
