"""Lines of JSON from files that may be broken anywhere.

Knows: physical lines, bytes, and how to get every whole record out of a line that holds more or
less than one. Does not know any agent's records: a format says how a line becomes one (`decode`),
and, for lines that are not in order, whether a plain JSON value is one (`accept`).

Nothing here raises for bad bytes. What is wrong with a line is named once as `Damage`; a byte
order mark, CRLF, blank lines and U+2028 inside strings are not wrong. Time is linear in the size
of the file, whatever is in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ..errors import NotASession
from ..history.log import Damage

BUFFER = 1 << 20
ATTEMPTS = 24
"""How often the start of a record is looked for in one broken line: bounds its cost to a multiple of its length."""


class Row(NamedTuple):
    """One record: its 1-based physical line, the byte where the line starts, and its value."""

    line: int
    start: int
    value: Any


class Rows(NamedTuple):
    """All records of a file in order, and what was broken."""

    rows: list[Row]
    damage: list[Damage]


def is_object(value: Any) -> Any | None:
    """The default for `accept`: a JSON object is a record."""
    return value if isinstance(value, dict) else None


_plain = msgspec.json.Decoder().decode


def decode_object(line: bytes) -> Any:
    """The default for `decode`: one JSON object; a ValueError for anything else."""
    value = _plain(line)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def open_bytes(path: Path) -> BinaryIO:
    """The file open for reading, or NotASession with what to check."""
    try:
        return path.open("rb", buffering=BUFFER)
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error


def read_rows(
    path: str | Path,
    decode: Callable[[bytes], Any] = decode_object,
    accept: Callable[[Any], Any | None] = is_object,
) -> Rows:
    """Every readable record of a JSONL file.

    >>> read_rows("session.jsonl").rows[0].value["type"]      # doctest: +SKIP
    'session_meta'
    """
    damage: list[Damage] = []
    with open_bytes(Path(path)) as file:
        return Rows(list(iter_rows(file, damage, decode, accept)), damage)


def iter_rows(
    file: BinaryIO,
    damage: list[Damage],
    decode: Callable[[bytes], Any] = decode_object,
    accept: Callable[[Any], Any | None] = is_object,
) -> Iterator[Row]:
    """The records of an open file, one at a time, so that a file larger than memory streams.

    `decode` makes a record of one line's bytes and may raise any ValueError. Where it does, the line is
    read leniently and `accept` makes a record of each plain JSON value found, or gives None for
    what is no record. Damage is appended to `damage` as it is met.
    """
    start = 0
    for number, line in enumerate(file, 1):
        try:
            value = decode(line)
        except (ValueError, RecursionError):
            values, broken = repair(line, number, accept)
            if broken is not None:
                damage.append(broken)
            for value in values:
                yield Row(number, start, value)
        else:
            yield Row(number, start, value)
        start += len(line)


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_decoder = json.JSONDecoder(strict=False)


def repair(line: bytes, number: int, accept: Callable[[Any], Any | None] = is_object) -> tuple[list[Any], Damage | None]:
    """The records of a line that is not exactly one, and what is wrong with it.

    >>> repair(b'{"a": 1}{"b": 2}', 7)[0]
    [{'a': 1}, {'b': 2}]
    """
    body = line.strip(b" \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if not body:
        return [], None
    if b"\0" in body:
        parts = [part for part in re.split(rb"\0+", body) if part.strip()]
        records = [record for part in parts for record in repair(part, number, accept)[0]]
        if not records and len(parts) > 1:
            records = repair(b"".join(parts), number, accept)[0]
        what = f"{body.count(0)} NUL bytes where text should be"
        return records, _damage(number, "nul", what, len(records))
    try:
        text, valid = body.decode(), True
    except UnicodeDecodeError:
        text, valid = body.decode("utf-8", "replace"), False
    text, halves = _whole_characters(text)
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        return _split(text, number, accept, torn=not line.endswith(b"\n"), deep=isinstance(error, RecursionError))
    record = accept(value)
    if record is None:
        return [], _damage(number, "not-a-record", f"a JSON {type(value).__name__} where a record should be", 0)
    if not valid:
        return [record], _damage(number, "not-utf8", "bytes that are not UTF-8; each is shown as U+FFFD", 1)
    if halves:
        return [record], _damage(number, "surrogate", f"{halves} half characters (lone surrogates), shown as U+FFFD", 1)
    try:
        _plain(body)
    except (ValueError, RecursionError):
        return [record], _damage(number, "not-json", "control characters or numbers that strict JSON does not allow", 1)
    return [record], None


def _whole_characters(text: str) -> tuple[str, int]:
    """The JSON text with each escape of half a surrogate pair replaced by U+FFFD, and how many there were."""
    halves = 0

    def whole(match: re.Match[str]) -> str:
        nonlocal halves
        if match[1] is None:
            return match[0]
        halves += 1
        return "\\ufffd"

    return _ESCAPE.sub(whole, text), halves


def _split(text: str, number: int, accept: Callable[[Any], Any | None], *, torn: bool, deep: bool) -> tuple[list[Any], Damage]:
    """Records of a text that is no single JSON value: several in a row, pieces between them, or one inside another."""
    records: list[Any] = []
    spans: list[tuple[int, int]] = []
    at, attempts = 0, 0
    while attempts < ATTEMPTS and (start := _START.search(text, at)):
        at = text.index("{", start.start())
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            deep = deep or isinstance(error, RecursionError)
            attempts += 1
            at += 1
            continue
        record = accept(value)
        if record is None:
            at += 1
            attempts += 1
            continue
        records.append(record)
        spans.append((at, end))
        at = end
    if len(spans) == 1 and spans[0][0] > 0 and spans[0][1] < len(text):
        outer = _outer(text, spans[0], accept)
        if outer is not None:
            records.insert(0, outer)
    lost = len(text) - sum(end - start for start, end in spans)
    if len(records) > 1 or (records and not torn):
        kind, what = "spliced", f"{len(records)} records on one line" if len(records) > 1 else "a record behind a broken piece"
    elif torn:
        kind, what = "torn", "cut off before its end"
    elif deep:
        kind, what = "too-deep", "nested deeper than can be read"
    else:
        kind, what = "not-json", "not a JSON object"
    if records and lost:
        what += f"; {lost} characters belong to none"
    return records, _damage(number, kind, what, len(records))


_START = re.compile(r'(?<![:,\[\s])\s*\{\s*"|\{"(?:parentUuid|uuid|sessionId|timestamp)"')
"""Where a record may start: an opening brace that is not the value of a key or an item of a list, as nested objects
are. The second part is for a record that was written behind a piece that was cut off just after `:`, `,` or `[`."""


def _outer(text: str, span: tuple[int, int], accept: Callable[[Any], Any | None]) -> Any | None:
    """The record that another one was written into the middle of, or None."""
    try:
        return accept(_decoder.decode(text[: span[0]] + text[span[1] :]))
    except (ValueError, RecursionError):
        return None


def _damage(number: int, kind: str, what: str, recovered: int) -> Damage:
    return Damage(number, kind, f"line {number}: {what}", recovered)
