"""A request: a projection in words that a provider takes, with canonical bytes.

Knows: the canonical form, its hash, and how two requests differ. Does not know how the pieces
were chosen, and sends nothing.

The canonical form is one JSON line for the tools, one for the system blocks, then one a message,
keys sorted, cache marks left out. So "request n+1 begins with request n's bytes" (law 7) is a
plain byte comparison.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .canonical import encode
from .pieces import Piece


@dataclass(frozen=True)
class RequestDiff:
    """How `b` departs from `a`. `first` is the index of the first message that differs, None if one is a prefix
    of the other or they are equal; -1 if system or tools differ already."""

    first: int | None
    block: int | None
    same_bytes: int
    bytes_a: int
    bytes_b: int
    a: Any = None
    b: Any = None

    @property
    def equal(self) -> bool:
        return self.same_bytes == self.bytes_a == self.bytes_b

    @property
    def extends(self) -> bool:
        """b begins with all of a."""
        return self.same_bytes == self.bytes_a

    def __str__(self) -> str:
        if self.equal:
            return "the same request"
        if self.extends:
            return f"the second adds {self.bytes_b - self.bytes_a} bytes at the end of the first"
        where = "the system prompt or the tools" if self.first == -1 else f"message {self.first}, block {self.block}"
        return f"first difference in {where}, after {self.same_bytes} equal bytes"


@dataclass(frozen=True, eq=False)
class Request:
    """What the model got (or would get) in one step.

    `messages` are neutral (role + blocks). `body` holds the provider's own words. `basis` says how it
    is known: "recorded" (the log holds the request), "rebuilt" (rules reproduce it), "partial" (what
    is missing is listed in `unknown`).
    """

    messages: list[dict[str, Any]]
    system: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    pieces: Sequence[Piece] = ()
    step: int | None = None
    kind: str = "main"
    model: str | None = None
    basis: str = "rebuilt"
    unknown: tuple[str, ...] = ()
    provider_body: dict[str, Any] | None = None
    prefix_bytes: int | None = None
    """canonical bytes at the start that the main request before it began with; None where that is not known"""
    total_bytes: int | None = None

    @cached_property
    def body(self) -> dict[str, Any]:
        """The provider's words: "messages" or "input", and system and tools as far as they are known."""
        if self.provider_body is not None:
            return self.provider_body
        body: dict[str, Any] = {} if self.model is None else {"model": self.model}
        if self.system is not None:
            body["system"] = self.system
        if self.tools is not None:
            body["tools"] = self.tools
        body["messages"] = self.messages
        return body

    @cached_property
    def canonical(self) -> bytes:
        """Canonical bytes; see the module docstring."""
        return b"".join(canonical_lines(self.tools, self.system, self.messages))

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.canonical).hexdigest()

    def diff(self, other: Request) -> RequestDiff:
        """How `other` departs from this request: the first differing block and the size of the shared prefix."""
        return diff(self, other)

    def __repr__(self) -> str:
        at = "next" if self.step is None else self.step
        return f"<Request step={at} {self.kind} {len(self.messages)} messages, {self.basis}>"


def canonical_lines(tools: Any, system: Any, messages: list[dict[str, Any]]) -> list[bytes]:
    """The canonical form, one line a part."""
    parts = [{"tools": tools or []}, {"system": system or []}, *messages]
    return [encode(_unmarked(part)) + b"\n" for part in parts]


def canonical_message(message: dict[str, Any]) -> bytes:
    """One line of the canonical form."""
    return encode(_unmarked(message)) + b"\n"


def _unmarked(value: Any) -> Any:
    """The value without cache marks; shared, not copied, where there are none."""
    if isinstance(value, dict):
        if "cache_control" in value:
            value = {k: v for k, v in value.items() if k != "cache_control"}
        if "content" in value and isinstance(value["content"], list):
            return {**value, "content": [_unmarked(part) for part in value["content"]]}
        if "tools" in value or "system" in value:
            return {k: [_unmarked(part) for part in v] if isinstance(v, list) else v for k, v in value.items()}
    return value


def shared_prefix(a: bytes, b: bytes) -> int:
    """How many bytes both begin with: halving, so that the comparing is done on whole slices.

    >>> shared_prefix(b"abcd", b"abxd"), shared_prefix(b"ab", b"abc"), shared_prefix(b"", b"a")
    (2, 2, 0)
    """
    same, end = 0, min(len(a), len(b))
    while same < end:
        middle = (same + end + 1) // 2
        if a[same:middle] == b[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def diff(a: Request, b: Request) -> RequestDiff:
    """See `Request.diff`."""
    lines_a = canonical_lines(a.tools, a.system, a.messages)
    lines_b = canonical_lines(b.tools, b.system, b.messages)
    size_a, size_b = sum(map(len, lines_a)), sum(map(len, lines_b))
    same = 0
    for i, (one, two) in enumerate(zip(lines_a, lines_b, strict=False)):
        if one == two:
            same += len(one)
            continue
        same += shared_prefix(one, two)
        if i < 2:
            return RequestDiff(-1, None, same, size_a, size_b, (a.tools, a.system)[i], (b.tools, b.system)[i])
        blocks_a, blocks_b = a.messages[i - 2]["content"], b.messages[i - 2]["content"]
        n = next(
            (j for j, (x, y) in enumerate(zip(blocks_a, blocks_b, strict=False)) if x != y), min(len(blocks_a), len(blocks_b))
        )
        pick = [blocks[n] if n < len(blocks) else None for blocks in (blocks_a, blocks_b)]
        return RequestDiff(i - 2, n, same, size_a, size_b, *pick)
    return RequestDiff(None, None, same, size_a, size_b)
