"""An emulated prompt cache: what a provider would have read, written and charged as new input.

Knows: the rules of the Anthropic prompt cache as documented on 2026-11-30 (exact prefix at the
`cache_control` marks, at most 4 marks, a look back of 20 blocks from each, a minimum size by model,
a life of 5 minutes that each use renews, or of an hour where the mark says `"ttl": "1h"`). Token
counts are an estimate at 3.5 bytes a token of the canonical form. Does not see replies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ..errors import ModelRefused
from ..history.events import Usage
from ..ids import Source

BYTES_PER_TOKEN = 3.5
LOOKBACK = 20
LIFE = {"5m": 300.0, "1h": 3600.0}
_encoder = msgspec.json.Encoder(order="deterministic")


def canonical(value: Any) -> bytes:
    """JSON with sorted keys. Half an emoji in a hostile log has no UTF-8; then everything beyond ASCII is escaped."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def unmarked(value: Any) -> Any:
    """The value without cache marks, which move from step to step and say nothing."""
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(v) for v in value] if isinstance(value, list) else value


def tokens(size: int) -> int:
    """Tokens of so many canonical bytes, rounded up: an estimate.

    >>> tokens(7), tokens(8)
    (2, 3)
    """
    return int(-(-size // BYTES_PER_TOKEN))


class PromptCache:
    """The cache of one account. `now` comes from the source, so that a lesson can let five minutes pass."""

    def __init__(self, source: Source, minimum: int = 1_024, marks: int = 4) -> None:
        self.source = source
        self.minimum = minimum
        self.marks = marks
        self._entries: dict[bytes, float] = {}

    def charge(self, body: dict[str, Any]) -> Usage:
        """Usage of a request, without its output; the cache then holds what the request marks.

        Raises ModelRefused, as the provider does, for more marks than are allowed.
        """
        now = self.source.now()
        self._entries = {key: until for key, until in self._entries.items() if until > now}
        hashed = hashlib.sha256(str(body.get("model", "")).encode())
        size, prefixes, marked = 0, [], []
        for block in blocks(body):
            mark = block.get("cache_control")
            data = canonical({k: v for k, v in block.items() if k != "cache_control"})
            hashed.update(data)
            size += len(data)
            prefixes.append((hashed.digest(), tokens(size)))
            if mark:
                marked.append((len(prefixes) - 1, LIFE.get(str(mark.get("ttl", "5m")), LIFE["5m"])))
        if len(marked) > self.marks:
            raise ModelRefused(f"A maximum of {self.marks} blocks with cache_control may be provided. Found {len(marked)}.")
        read = max((self._hit(prefixes, at, life, now) for at, life in marked), default=0)
        written = read
        for at, life in marked:
            key, count = prefixes[at]
            if count >= self.minimum:
                self._entries[key] = now + life
                written = max(written, count)
        return Usage(input=tokens(size) - written, cache_read=read, cache_write=written - read)

    def _hit(self, prefixes: list[tuple[bytes, int]], at: int, life: float, now: float) -> int:
        """Tokens of the longest stored prefix that ends at the mark or at most 20 blocks before it."""
        for key, count in reversed(prefixes[max(0, at - LOOKBACK) : at + 1]):
            if key in self._entries:
                self._entries[key] = max(self._entries[key], now + life)
                return count
        return 0


def blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The request as the provider reads it: tools, system, then the blocks of each message with their role."""
    yield from _objects(body.get("tools"))
    yield from _objects(body.get("system"))
    for i, message in enumerate(body.get("messages") or []):
        for block in _objects(message.get("content")):
            yield {**block, "@": f"{i}:{message.get('role')}"}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}] if isinstance(value, str) else [v for v in value or [] if isinstance(v, dict)]


def size(body: dict[str, Any]) -> int:
    """Tokens of a whole request: the same estimate that `charge` splits."""
    return tokens(sum(len(canonical({k: v for k, v in b.items() if k != "cache_control"})) for b in blocks(body)))
