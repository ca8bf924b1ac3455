"""The whole kernel over the wire: what it sends is what the API takes, and the answers are those of the local model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nova_nb import AgentKernel, examples
from nova_nb.ids import Fixed
from nova_nb.models.anthropic import AnthropicModel
from nova_nb.models.base import Model
from nova_nb.models.offline import OfflineModel
from nova_nb.models.prompt_cache import unmarked

from .server import WireServer

PROMPTS = examples.scenario("shop")["prompts"]


async def ask(tmp_path: Path, name: str, model: Model, *questions: str) -> AgentKernel:
    shop = examples.workspace("shop", tmp_path / name / "shop")
    kernel = AgentKernel(shop, model, permission="deny", home=tmp_path / name / "home", ids=Fixed())
    for question in questions:
        await kernel.ask(question)
    return kernel


async def test_a_session_over_the_wire_is_the_local_session(tmp_path: Path) -> None:
    questions = (PROMPTS["why"], PROMPTS["ship"], PROMPTS["recall"])
    with WireServer() as server:
        wired = await ask(tmp_path, "wire", AnthropicModel("claude-opus-5-5", server.url, server.key), *questions)
        seen = [s.body for s in server.seen]
    local = await ask(tmp_path, "local", OfflineModel(), *questions)
    steps = wired.session.steps
    assert len(seen) == len(steps) == len(local.session.steps) > 8
    for step, body in enumerate(seen, 1):
        sent = wired.session.request(step=step)
        assert unmarked(body["messages"]) == sent.messages
        assert unmarked(body["system"]) == sent.system
    assert [s.usage.output for s in steps] == [s.usage.output for s in local.session.steps]
    assert all(s.usage.cache_read > 0 for s in steps[1:])


async def test_thinking_that_the_kernel_does_not_keep_breaks_no_prefix(tmp_path: Path) -> None:
    with WireServer(thinking=True, prefix_check="error") as server:
        kernel = await ask(
            tmp_path, "wire", AnthropicModel("claude-opus-5-5", server.url, server.key), PROMPTS["why"], PROMPTS["ship"]
        )
        assert server.transformations == []
    texts: list[Any] = [e for e in kernel.session.log.events if getattr(e, "role", "") == "assistant"]
    assert texts
    assert "thinking" not in {block["type"] for event in texts for block in event.content}
