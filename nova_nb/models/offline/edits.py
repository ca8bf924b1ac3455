"""Changes to Python source: what a file should become, and the next hunk on the way there.

Knows: how naive time is written, where imports stand, how to say a change as one patch. Pure text
in, text out. Each target is reached step by step: of a file that is half changed it gives the
same final text, so the plan needs no memory of what it did.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

NAIVE = re.compile(r"datetime\.(?:now|utcnow|today)\(\)(?P<how>(?:\.\w+\([^()\n]*\))*)")
"""A reading of the clock without an offset."""

_DATABASE = re.compile(r'\w+\.execute\("SELECT CURRENT_TIMESTAMP"\)\.fetchone\(\)\[0\]')
_IN_SQL = re.compile(r'= CURRENT_TIMESTAMP( WHERE[^"\n]*", )\(')
TIME = re.compile(f"{NAIVE.pattern}|CURRENT_TIMESTAMP")
"""Any of the ways of writing a time that the UTC rule is about."""


@dataclass(frozen=True)
class Helper:
    """A function of the project that gives the time in UTC: `from module import name`."""

    module: str
    name: str


def with_utc(text: str, helper: Helper | None) -> str:
    """The file with every stored time in UTC, by the project's helper if there is one, and its imports in order."""
    return with_imports(utc_times(text, helper), helper)


def utc_times(text: str, helper: Helper | None) -> str:
    """The text with each way of taking the time replaced by one in UTC; imports as they were."""
    now = f"{helper.name}()" if helper else "datetime.now(timezone.utc)"

    def aware(found: re.Match[str]) -> str:
        return now + (".isoformat()" if found["how"] else "")

    text = re.sub(r"^ *# [^\n]*\n(?=[^\n]*CURRENT_TIMESTAMP)", "", text, flags=re.M)
    text = NAIVE.sub(aware, text)
    text = _DATABASE.sub(f"{now}.isoformat()", text)
    text = _IN_SQL.sub(rf"= ?\1({now}.isoformat(), ", text)
    return re.sub(r"(\.isoformat\(\), \w+),\)", r"\1)", text)


def with_database_time(text: str, because: str) -> str:
    """The file with every stored time left to the database: the habit."""
    connection = re.search(r"\b(\w+)\.execute\(", text)
    lines = []
    for line in text.splitlines():
        if connection and NAIVE.search(line):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}# {because}")
            line = NAIVE.sub(lambda _: f'{connection[1]}.execute("SELECT CURRENT_TIMESTAMP").fetchone()[0]', line)
        lines.append(line)
    return with_imports("\n".join(lines) + "\n", None)


def with_imports(text: str, helper: Helper | None) -> str:
    """The file importing what it uses of `datetime`, `timezone` and the helper, and no longer what it does not."""
    line = re.search(r"^from datetime import [\w, ]+\n", text, re.M)
    code = text.replace(line[0], "") if line else text
    used = [name for name in ("datetime", "timezone", "timedelta", "date") if re.search(rf"\b{name}\b(?!\()[.(\s,)]", code)]
    known = set(re.findall(r"\w+", line[0])) if line else set()
    keep = [n for n in used if n in known or (n in ("datetime", "timezone") and re.search(rf"\b{n}\.", code))]
    wanted = [f"from datetime import {', '.join(keep)}\n"] if keep else []
    if helper and re.search(rf"\b{helper.name}\(", code) and not re.search(rf"\b(import|def) .*\b{helper.name}\b", code):
        wanted.append(f"from {helper.module} import {helper.name}\n")
    if line:
        head, tail = text[: line.start()], text[line.end() :]
        if len(wanted) == 2 and tail.startswith("\n"):
            wanted.insert(1, "\n")
        if not wanted:
            return head.rstrip("\n") + "\n\n\n" + tail.lstrip("\n") if head.strip() else tail.lstrip("\n")
        return head + "".join(wanted) + tail
    if not wanted:
        return text
    docstring = re.match(r'("""|\'\'\').*?\1\n', text, re.S)
    at = docstring.end() if docstring else 0
    rest = text[at:]
    gap = "" if re.match(r"\n+(from|import) ", rest) else "\n"
    return text[:at] + ("\n" if docstring else "") + "".join(wanted) + gap + (rest.lstrip("\n") if not gap else rest)


def with_name(text: str, old: str, new: str) -> str:
    """The file with one symbol renamed, whole words only."""
    return re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)" if "." in old else rf"\b{re.escape(old)}\b", lambda _: new, text)


def with_column(text: str, table: str, column: str) -> str:
    """A schema with one more nullable text column in `table`."""
    found = re.search(rf"(CREATE TABLE (?:IF NOT EXISTS )?{re.escape(table)} \(\n)(.*?)(\n\s*\))", text, re.S)
    if not found or re.search(rf"\b{re.escape(column)}\b", found[2]):
        return text
    last = found[2].splitlines()[-1]
    indent = last[: len(last) - len(last.lstrip())]
    return text[: found.end(2)] + f",\n{indent}{column} TEXT" + text[found.end(2) :]


def with_function(text: str, name: str, source: str) -> str:
    """The file with a function added at its end, unless it has one of this name."""
    if re.search(rf"^def {re.escape(name)}\(", text, re.M):
        return text
    return text.rstrip("\n") + "\n\n\n" + source.strip("\n") + "\n"


def next_hunk(text: str, target: str) -> tuple[str, str] | None:
    """The first change on the way from `text` to `target` as (old, new), `old` standing once in `text`; None if equal."""
    a, b = text.splitlines(keepends=True), target.splitlines(keepends=True)
    done = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    # What is already equal is left out of the comparison, so each hunk makes it longer and the last one ends it.
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a[done:], b[done:], autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        before, after = done + i1, done + i2
        old, new = a[before:after], b[done + j1 : done + j2]
        while not old or not _stands_once(text, "".join(old), len("".join(a[:before]))):
            if before > 0:
                before -= 1
                old, new = [a[before], *old], [a[before], *new]
            elif after < len(a):
                old, new = [*old, a[after]], [*new, a[after]]
                after += 1
            else:
                return None
        return "".join(old), "".join(new)
    return None


def _stands_once(text: str, part: str, at: int) -> bool:
    """Whether `part` stands in `text` at this character and nowhere else, overlapping places counted too."""
    return text.find(part) == at and text.find(part, at + 1) < 0


def as_diff(path: str, old: str, new: str) -> str:
    """A hunk as a unified diff, for a patch tool that takes one."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
    return "".join(lines)
