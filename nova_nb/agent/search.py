"""Find lines in the files of a folder; run as a child process, so that no pattern can hang the agent.

Knows: which files are worth searching and how a hit is printed. Run as
`python -I search.py ROOT START PATTERN GLOB LIMIT`: it imports nothing of Nova and starts in 20 ms.
A pattern that is no valid regular expression is searched as plain text.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch

SKIPPED = {".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache", ".ipynb_checkpoints"}
MAX_FILE = 4_000_000
MAX_LINE = 500


def files(root: str, start: str, glob: str | None = None) -> Iterator[str]:
    """Paths of regular files below `start`, relative to `root`, sorted; links to folders are not followed."""
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            if glob is None or fnmatch(path, glob) or fnmatch(name, glob) or (glob[:3] == "**/" and fnmatch(path, glob[3:])):
                yield path


def hits(root: str, start: str, pattern: str, glob: str | None) -> Iterator[tuple[str, int, str]]:
    """(path, line, text) of each line that matches."""
    try:
        find = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        find = re.compile(re.escape(pattern))
    for path in files(root, start, glob):
        full = os.path.join(root, path)
        if not os.path.isfile(full) or os.path.islink(full) or os.path.getsize(full) > MAX_FILE:
            continue
        try:
            with open(full, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if find.search(line):
                yield path, number, line.strip() if len(line) <= MAX_LINE else line[:MAX_LINE] + " …"


def report(root: str, start: str, pattern: str, glob: str | None, limit: int) -> str:
    """The first line says how much was found; then `path:line: text`, at most `limit` of them."""
    lines: list[str] = []
    found = 0
    seen: set[str] = set()
    for path, number, text in hits(root, start, pattern, glob):
        found += 1
        seen.add(path)
        if found <= limit:
            lines.append(f"{path}:{number}: {text}")
    if not found:
        return "no matches"
    head = f"{found} {'match' if found == 1 else 'matches'} in {len(seen)} {'file' if len(seen) == 1 else 'files'}"
    return "\n".join([head + (f", the first {limit}:" if found > limit else ":"), *lines])


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    _root, _start, _pattern, _glob, _limit = sys.argv[1:]
    print(report(_root, _start, _pattern, _glob or None, int(_limit)))
