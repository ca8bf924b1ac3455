"""Who answers: the `Model` protocol, a reply, and what a model can do.

Knows: shapes. Does not know any provider; each has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..history.events import Block, Usage
from ..projection.capabilities import Capabilities

__all__ = ["Capabilities", "Delta", "Model", "Reply"]


class Delta(msgspec.Struct, frozen=True):
    """A part of a reply as it arrives: `kind` is "text", "thinking" or "tool_use"."""

    kind: str
    text: str


class Reply(msgspec.Struct, frozen=True):
    """An answer. `content` are neutral blocks, `stop_reason` the provider's word ("end_turn", "tool_use", …)."""

    content: list[Block]
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    meta: dict[str, Any] = {}


class Model(Protocol):
    """Anything that answers a request.

    `send` takes a body in the words of the Anthropic Messages API (model, system, tools, messages,
    max_tokens; cache marks included). It raises `PromptTooLong`, `ModelRefused` or `ModelUnavailable`.
    """

    name: str
    provider: str
    capabilities: Capabilities

    async def send(self, body: dict[str, Any], on_delta: Callable[[Delta], None] | None = None) -> Reply: ...
