"""One JSON for one value: compact, keys sorted, UTF-8.

Knows: that half of a surrogate pair, which UTF-8 cannot hold, is written as its escape (`\\ud83d`), so that no text
that a log or a caller holds is without canonical bytes, and two different texts never have the same.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(value: Any) -> bytes:
    """Canonical JSON of a plain value.

    >>> encode({"b": "\\ud83d", "a": 1})
    b'{"a":1,"b":"\\\\ud83d"}'
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
