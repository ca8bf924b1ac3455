"""Layers with lifetimes of their own: a short window, facts, task state, and what the task calls back [004].

Facts are found by how a rule sounds, at most 20 stand in a request; retrieval ranks the passages that left
by paths and names they share with the task. Both are the plainest form of what `nova_nb.memory` does
well; here they need no model and no index, so that any session can be run under them.
"""

from __future__ import annotations

import re

from ...history.events import Block
from ...settings import ContextSettings
from ..calls import calls_of
from ..confidence import words
from ..pieces import Piece
from ..repair import Message
from ..summary import escape, symbols_in
from .rolling import Rolling

FACTS = 20
"""most facts in a request [004]"""
TOP_K = 4
"""passages called back: 3 to 5 [004]"""
PASSAGE_CHARS = 500

_RULE = re.compile(
    r"\b(always|never|must|convention|decided|agreed|rename[ds]?|instead of|prefer|from now on|do not|don't)\b|统一|必须|禁止|约定",
    re.I,
)
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


class Layered(Rolling):
    """A window of a quarter of the room; facts and task state stand before it, renewed when it moves."""

    share = 0.25

    def __init__(self, settings: ContextSettings, retrieval: bool = False) -> None:
        super().__init__(settings)
        self.name = "layered-retrieval" if retrieval else "layered"
        self.retrieval = retrieval
        self.facts: dict[str, None] = {}
        self.done: dict[str, None] = {}
        self.goal = ""
        self.left: list[Piece] = []

    def content(self, gone: list[Message], kept: list[Message]) -> list[Block]:
        pieces = [p for m in gone for p in m if p.state == "whole"]
        self.left += pieces
        for piece in pieces:
            if piece.block.get("type") == "text":
                found = [s.strip() for s in _END.split(words(piece)) if _RULE.search(s) and len(s) < 300]
                self.facts.update(dict.fromkeys(found))
        for call in calls_of(gone):
            if call.kind == "write" and call.done and call.path:
                self.done[call.path] = None
        asks = [
            p for m in [*gone, *kept] for p in m if p.role == "user" and p.state == "whole" and p.block.get("type") == "text"
        ]
        self.goal = words(asks[-1])[:400] if asks else self.goal
        parts = [
            ("Facts", [f"- {escape(f)}" for f in list(self.facts)[-FACTS:]]),
            (
                "Task",
                [f"- goal: {escape(self.goal)}", *(f"- changed: {path}" for path in list(self.done)[-10:])]
                if self.goal
                else [],
            ),
            ("Earlier passages", self._recalled() if self.retrieval else []),
        ]
        text = "\n\n".join(f"## {name}\n" + "\n".join(lines) for name, lines in parts if lines)
        return [{"type": "text", "text": f"<memory>\n{text}\n</memory>"}] if text else []

    def _recalled(self) -> list[str]:
        wanted = symbols_in(self.goal)
        scored = []
        for i, piece in enumerate(self.left):
            text = words(piece)
            hits = sum((3 if "/" in name or "." in name else 1) for name in wanted if name in text)
            if hits:
                scored.append((hits, i, piece.sources[0], text))
        best = sorted(scored, key=lambda s: (-s[0], -s[1]))[:TOP_K]
        return [f"- from {id}: {escape(text[:PASSAGE_CHARS])}" for _, _, id, text in best]
