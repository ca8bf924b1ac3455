"""Whole JSON documents as session files: looking into their head, reading them, and what survives damage.

Knows: how to read a document that is one JSON value, where each of its rows stands, and how much
of a broken one can still be read. Does not know what any key means.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
from pydantic_core import from_json

from ..errors import NotASession
from ..history.log import Damage

BOM = "\ufeff"


def peek(head: bytes) -> Any:
    """The JSON value that `head` begins, as far as it goes; None when it begins none.

    >>> peek(b'{"info": {"a": 1}, "messages": [{"role": "us')
    {'info': {'a': 1}, 'messages': [{}]}
    """
    text = head.decode("utf-8", "ignore").lstrip(BOM).lstrip()
    if text[:1] not in ("{", "[", '"'):
        return None
    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return None


def peek_rows(head: bytes, most: int = 20) -> list[dict[str, Any]]:
    """The JSON objects on the first lines of `head`; the last one as far as it goes.

    >>> peek_rows(b'{"a": 1}\\nnot json\\n{"b": 2}\\n{"c": [1, ')
    [{'a': 1}, {'b': 2}, {'c': [1]}]
    """
    rows = []
    *lines, last = head.split(b"\n")
    for line in lines[:most]:
        try:
            row = msgspec.json.decode(line.lstrip(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    if len(lines) < most and isinstance(row := peek(last), dict) and row:
        rows.append(row)
    return rows


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or NotASession with what stands in the way."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error


def load(data: bytes) -> tuple[Any, list[Damage]]:
    """A document's value and its damage. What stands before a break is kept; None when nothing can be read.

    >>> load(b'{"a": 1}')
    ({'a': 1}, [])
    >>> value, damage = load(b'{"a": [1, 2], "b": [3, tru')
    >>> value, damage[0].kind
    ({'a': [1, 2], 'b': [3]}, 'torn')
    """
    try:
        return msgspec.json.decode(data), []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    damage: list[Damage] = []
    text = data.decode("utf-8", "replace").lstrip(BOM)
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        line = text.count("\n", 0, text.index("\ufffd")) + 1
        damage.append(Damage(line, "not-utf8", f"line {line}: bytes that are no UTF-8 are shown as U+FFFD"))
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, _first(text))
        rest = text[end:].strip()
        if rest:
            line = text.count("\n", 0, end) + 1
            damage.append(Damage(line, "spliced", f"line {line}: {len(rest)} characters after the document were left out"))
        return scrubbed(value), damage
    except RecursionError:
        return None, [*damage, Damage(1, "too-deep", "the document is nested too deeply to be read")]
    except json.JSONDecodeError as error:
        line = text.count("\n", 0, error.pos) + 1
        rest = text[error.pos :].strip("\0\r\n\t ")
        kind = "nul" if "\0" in text[error.pos : error.pos + 2] else "not-json" if len(rest) > 1 else "torn"
        value = _salvage(text, error.pos)
        kind = "torn" if value is not None and _cut(text) else kind
        kept = len(value) if isinstance(value, dict | list) else 0
        damage.append(Damage(line, kind, f"line {line}: the document breaks here ({error.msg}); read up to it", kept))
        return scrubbed(value), damage


def _first(text: str) -> int:
    return len(text) - len(text.lstrip())


def _cut(text: str) -> bool:
    """The document only ends too early."""
    try:
        from_json(text, allow_partial=True)
    except ValueError:
        return False
    return True


def _salvage(text: str, at: int) -> Any:
    for end in (len(text), at):
        try:
            return from_json(text[:end].lstrip(), allow_partial=True)
        except (ValueError, UnicodeEncodeError):
            continue
    return None


def scrubbed(value: Any) -> Any:
    """The value with lone surrogates as U+FFFD, so that it can be written as UTF-8 again."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _LONE.search(value) else value
    if isinstance(value, list):
        return [scrubbed(part) for part in value]
    if isinstance(value, dict):
        return {scrubbed(k): scrubbed(v) for k, v in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


_LONE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.S)


def row_lines(data: bytes, key: str | None) -> list[int]:
    """Physical line of each element of the array under `key` at the top (None: the document is the array).

    >>> row_lines(b'{"n": [],\\n"messages": [\\n{"a": 1},\\n{"b": [2]}]}', "messages")
    [3, 4]
    """
    if b"\n" not in data.strip():
        return []
    text = data.decode("utf-8", "replace")
    lines: list[int] = []
    depth, inside, awaiting, line, at, after, last = 0, False, False, 1, 0, 0, ""
    base = 1 if key is None else 2
    for match in _TOKEN.finditer(text):
        token = match[0]
        if awaiting and token != "]":
            start = after + len(text[after : match.end()]) - len(text[after : match.end()].lstrip())
            line += text.count("\n", at, start)
            at = start
            lines.append(line)
            awaiting = False
        if token[0] == '"':
            if depth == 1:
                last = token[1:-1]
        elif token in "[{":
            depth += 1
            if depth == base and token == "[" and not lines and (key is None or last == key):
                inside = awaiting = True
                after = match.end()
        elif token in "]}":
            depth -= 1
            if inside and depth < base:
                return lines
        elif inside and depth == base:
            awaiting, after = True, match.end()
    return lines
