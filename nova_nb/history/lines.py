"""One line of a log whatever its bytes: what can be read of it, and a name for what is wrong.

Knows: bytes, JSON, UTF-8. Does not know what a record means. Called only for lines that a fast
decoder refused, so it may be slow; it never raises.
"""

from __future__ import annotations

import json
import re
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
_decoder = json.JSONDecoder()


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD, so that it is UTF-8.

    >>> well_formed("half an emoji: \\ud83d") == "half an emoji: \\ufffd"
    True
    """
    if _LONE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean(value: Any) -> Any:
    """A JSON value with every text well formed."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


def recover(line: bytes) -> tuple[list[Any], str, str]:
    """JSON values that a bad line still holds, the kind of damage ("" for none), and a clause that says what it is.

    >>> recover(b'{"a":1}{"b":2}')[:2]
    ([{'a': 1}, {'b': 2}], 'spliced')
    >>> recover(b'\\0\\0{"a":1}')[:2]
    ([{'a': 1}], 'nul')
    """
    kind, clause = "", ""
    if b"\0" in line:
        kind, clause = "nul", f"{line.count(0)} NUL bytes"
        line = line.translate(None, b"\0")  # `replace` takes a minute for a gigabyte of them
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        if not kind:
            kind, clause = "not-utf8", f"byte {error.start} is not UTF-8"
        text = line.decode(errors="replace")
    values: list[Any] = []
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r":
            at += 1
        if at >= len(text):
            break
        try:
            value, at = _decoder.raw_decode(text, at)
        except RecursionError:
            return [], "too-deep", "nested too deep to read"
        except ValueError as error:
            return values, kind or "not-json", clause or f"not JSON ({error})"
        values.append(clean(value))
    if len(values) > 1 and not kind:
        kind, clause = "spliced", f"{len(values)} records on one line"
    if not values:
        return [], kind or "not-json", clause or "empty"
    return values, kind or "surrogate", clause or "half of a surrogate pair"
