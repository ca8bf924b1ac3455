"""A model that says what a test wants, and short names for what a log holds."""

from __future__ import annotations

from typing import Any

from nova_nb.agent.kernel import AgentKernel
from nova_nb.history.events import Usage
from nova_nb.models.base import Capabilities, Reply


class Scripted:
    """A model that gives the replies it was made with, one a request, and keeps the bodies. A reply may be an
    exception (raised), a text (the last words), a Reply, or an async function that makes one of these."""

    name = "scripted"
    provider = "test"
    capabilities = Capabilities()

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.bodies: list[dict[str, Any]] = []

    async def send(self, body: dict[str, Any], on_delta: Any = None) -> Reply:
        self.bodies.append(body)
        step: Any = self.script.pop(0)
        if callable(step):
            step = await step(on_delta)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Reply):
            return step
        usage = Usage(input=100, output=10)
        if isinstance(step, str):
            return Reply([{"type": "text", "text": step}], "end_turn", usage, "scripted")
        raise TypeError(step)


def call(id: str, name: str, **input: Any) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def calls(*blocks: dict[str, Any]) -> Reply:
    """A reply that calls tools."""
    return Reply(list(blocks), "tool_use", Usage(input=100, output=10), "scripted")


def kinds(kernel: AgentKernel) -> list[str]:
    """The session's events in short: their type, with origin or kind where that says more."""
    out = []
    for event in kernel.live.events:
        name = type(event).__name__
        more = getattr(event, "origin", None) or getattr(event, "kind", None) or getattr(event, "part", None)
        out.append(f"{name}:{more}" if isinstance(more, str) else name)
    return out
