"""What the readers of other agents' logs share: defensive access, unique ids, a bounded walk, versions.

Knows: how to take a value of the expected type out of a row that may hold anything. Does not know
any agent. Providers' words are in `words`, lines in `rows`, documents in `documents`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..history.events import Block, Usage

Json = dict[str, Any]


def as_dict(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: Any) -> str:
    """The value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_int(value: Any) -> int:
    """A count: the value if it is a number of a sensible size and not negative, else 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        return 0
    return int(value)


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def parse_object(text: str) -> Json:
    """A call's arguments as an object; what is no JSON object is kept whole under "arguments".

    >>> parse_object('{"a": 1}'), parse_object("{cut")
    ({'a': 1}, {'arguments': '{cut'})
    """
    try:
        value = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": text}


def usage_with_cached_inside(input: int, cached: int, output: int, cache_write: int = 0) -> Usage:
    """Usage of providers whose input figure contains the cached tokens (OpenAI, Gemini).

    >>> usage_with_cached_inside(100, 90, 5)
    Usage(input=10, output=5, cache_read=90, cache_write=0)
    """
    return Usage(max(input - cached - cache_write, 0), output, cached, cache_write)


class Names:
    """Gives each record an id that is unique in its log: a repeated one becomes "<id>#L<line>"."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __contains__(self, id: str) -> bool:
        return id in self._seen

    def give_back(self, id: str) -> None:
        """The id is free again: it was only asked for."""
        self._seen.discard(id)

    def take(self, id: Any, line: int) -> str:
        name = id if isinstance(id, str) and id else f"L{line}"
        while name in self._seen:
            name = f"{name}#L{line}"
        self._seen.add(name)
        return name


def walk_files(root: Path, wanted: Callable[[str], bool], depth: int = 6, limit: int = 50_000) -> Iterator[Path]:
    """Files below a folder whose names are wanted, sorted by path; links are not followed, `limit` entries are looked at."""
    stack: list[tuple[str, int]] = [(str(root), 0)]
    seen = 0
    while stack:
        folder, level = stack.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        folders = []
        for entry in entries:
            seen += 1
            if seen > limit:
                return
            if entry.is_dir(follow_symlinks=False):
                if level < depth:
                    folders.append((entry.path, level + 1))
            elif wanted(entry.name) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
        stack.extend(reversed(folders))


def read_head(path: Path, size: int = 65_536) -> bytes:
    """The first bytes of a file; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def version_of(text: str | None) -> tuple[int, ...]:
    """ "0.171.0" as (0, 171, 0), to be compared; () where there is none.

    >>> version_of("0.98.0") < version_of("0.171.0")
    True
    """
    numbers: list[int] = []
    for part in (text or "").split("-")[0].split("."):
        if not part.isascii() or not part.isdigit() or len(part) > 9:
            break
        numbers.append(int(part))
    return tuple(numbers)
