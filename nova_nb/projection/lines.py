"""Finished messages in every form that a request needs, summed as they grow.

Knows: canonical bytes, their hash, characters by category. Does not know events or stages.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .budget import category, piece_chars
from .pieces import Piece
from .repair import Message, Segment
from .request import canonical_message


class Lines:
    """Finished messages in every form a request needs, with sums and hash of their canonical bytes."""

    def __init__(self, head: list[bytes], per_token: float) -> None:
        self.head = head
        self.sha = hashlib.sha256(b"".join(head))
        self.size = sum(map(len, head))
        self.lines: list[bytes] = []
        self.messages: list[dict[str, Any]] = []
        self.pieces: list[Piece] = []
        self.grouped: list[Message] = []
        self.chars: dict[str, int] = {}
        self.left: dict[str, tuple[str, str]] = {}
        self._per_token = per_token

    def extend(self, segment: Segment) -> None:
        for message in segment.messages:
            neutral = {"role": message[0].role, "content": [p.block for p in message]}
            line = canonical_message(neutral)
            self.sha.update(line)
            self.size += len(line)
            self.lines.append(line)
            self.messages.append(neutral)
            self.pieces += message
            for piece in message:
                name = category(piece)
                self.chars[name] = self.chars.get(name, 0) + piece_chars(piece, self._per_token)
        self.grouped += segment.messages
        self.left |= segment.left

    def plus(self, segment: Segment) -> Lines:
        """A view of this with one unfinished segment after it; `self` stays as it is."""
        more = Lines([], self._per_token)
        more.sha, more.size = self.sha.copy(), self.size
        more.chars = dict(self.chars)
        more.extend(segment)
        return more
