"""The offline model: a deterministic agent that answers from the request's bytes and nothing else.

It is no language model. It plans with the real tools (list, search, read, run, patch), follows the
rules that it can see and falls back to a habit when it sees none, so that what it forgets is
exactly what the projection lost. It keeps no state between calls but the emulated prompt cache, which
decides what a request costs and never what is answered.

Sight (`sight`) → rules in sight (`rules`) → the next move (`plan`, with `repair`, `answers`, `summary`,
`memories`) → a reply in the words of the Messages API, with usage (`nova_nb.models.prompt_cache`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from ...errors import PromptTooLong
from ...history.events import Block, Usage
from ...ids import Source, System
from ..base import Capabilities, Delta, Reply
from ..prompt_cache import BYTES_PER_TOKEN, PromptCache, canonical, size, tokens, unmarked
from .plan import next_move
from .sight import Sight

__all__ = ["OfflineModel"]


class OfflineModel:
    """A `Model` that needs no key and no network.

    `window_tokens`: requests whose estimate is larger raise PromptTooLong. `source`: clock of the
    emulated cache. `delay`: seconds before each part of a reply, so that a live view has something to show.

    >>> import asyncio
    >>> body = {"messages": [{"role": "user", "content": "Always use pnpm, not npm."}], "max_tokens": 100}
    >>> asyncio.run(OfflineModel().send(body)).content[0]["text"]
    'Understood: Always use pnpm, not npm.'
    """

    provider = "offline"

    def __init__(
        self, window_tokens: int = 200_000, source: Source | None = None, delay: float = 0.0, name: str = "offline"
    ) -> None:
        self.name = name
        self.delay = delay
        self.capabilities = Capabilities(window_tokens=window_tokens, max_output_tokens=8_000)
        self.cache = PromptCache(source or System(), self.capabilities.cache_min_tokens, self.capabilities.cache_breakpoints)

    async def send(self, body: dict[str, Any], on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """Answer a request. Raises PromptTooLong, or ModelRefused for more than four cache marks."""
        need = size(body)
        if need > self.capabilities.window_tokens:
            raise PromptTooLong(f"prompt is too long: {need} tokens > {self.capabilities.window_tokens} maximum")
        charged = self.cache.charge(body)
        content, stop = reply_to(body)
        for block in content:
            await self._stream(block, on_delta)
        output = tokens(len(canonical(content)))
        usage = Usage(charged.input, output, charged.cache_read, charged.cache_write)
        return Reply(content, stop, usage, self.name, f"msg_{_digest(body)[:24]}")

    async def _stream(self, block: Block, on_delta: Callable[[Delta], None] | None) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        if on_delta is None:
            return
        if block["type"] == "tool_use":
            on_delta(Delta("tool_use", block["name"]))
            return
        for part in block["text"].splitlines(keepends=True):
            on_delta(Delta("text", part))

    def __repr__(self) -> str:
        return f"OfflineModel(window_tokens={self.capabilities.window_tokens})"


def reply_to(body: dict[str, Any]) -> tuple[list[Block], str]:
    """Content and stop reason for a request: a pure function of its bytes."""
    move = next_move(Sight(body))
    room = int((body.get("max_tokens") or 8_000) * BYTES_PER_TOKEN)
    if len(move.text) > room:
        return [{"type": "text", "text": move.text[:room]}], "max_tokens"
    content: list[Block] = [{"type": "text", "text": move.text}] if move.text else []
    if not move.calls:
        return content, "end_turn"
    digest = _digest(body)
    for i, (name, given) in enumerate(move.calls):
        content.append({"type": "tool_use", "id": f"toolu_{digest[:20]}{i:02d}", "name": name, "input": given})
    if len(canonical(content)) > room:
        return content[:1], "max_tokens"
    return content, "tool_use"


def _digest(body: dict[str, Any]) -> str:
    """Hex hash of what the model sees: cache marks, which move from step to step, left out."""
    seen = {k: v for k, v in body.items() if k in ("system", "tools", "messages", "max_tokens")}
    return hashlib.sha256(canonical(unmarked(seen))).hexdigest()
