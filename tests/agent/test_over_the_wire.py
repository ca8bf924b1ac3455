"""The whole kernel over HTTP: the official SDK on one side, a server that refuses what the real one would on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb import examples
from nova_nb.errors import ModelRefused, ModelUnavailable
from nova_nb.history.events import Failure, ReplyReceived, RequestSent
from nova_nb.ids import Fixed
from nova_nb.models.anthropic import AnthropicModel
from tests.agent.scripted import kinds
from tests.wire.server import WireServer

PROMPTS = examples.scenario("shop")["prompts"]
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(params=[False, True], ids=["plain", "thinking"])
def server(request: pytest.FixtureRequest) -> Iterator[WireServer]:
    with WireServer(key=KEY, thinking=request.param, prefix_check="error" if request.param else None) as server:
        yield server


@pytest.fixture
def kernel(server: WireServer, tmp_path: Path) -> Iterator[nova.AgentKernel]:
    shop = examples.workspace("shop", tmp_path / "shop")
    model = AnthropicModel("claude-opus-5-5", base_url=server.url, api_key=KEY, max_retries=1)
    with nova.AgentKernel(shop, model, permission="allow", home=tmp_path / "home", ids=Fixed()) as kernel:
        yield kernel


async def test_the_shop_is_repaired_and_every_request_is_derived_again(server: WireServer, kernel: nova.AgentKernel):
    heard: list[str] = []
    kernel.watch(lambda delta: heard.append(delta.text) if delta.kind == "text" else None)
    answer = await kernel.ask(PROMPTS["why"])
    assert "tests pass" in str(answer)
    assert str(answer) in "".join(heard)
    assert answer.usage.cache_read > answer.usage.input
    session = nova.open_session(kernel.live.directory)
    sent = [e for e in kernel.live.events if isinstance(e, RequestSent)]
    assert len(sent) == len(server.seen) == answer.steps
    for event, seen in zip(sent, server.seen, strict=True):
        assert session.request(event.step).hash == event.hash
        assert len(seen.body["messages"]) == len(session.request(event.step).messages)
    assert all(e.usage.context for e in kernel.live.events if isinstance(e, ReplyReceived))


async def test_the_key_is_written_nowhere(server: WireServer, kernel: nova.AgentKernel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    await kernel.ask(PROMPTS["why"])
    files = [path for path in kernel.live.directory.parents[1].rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert KEY not in repr(kernel) + repr(kernel.model) + repr(kernel.agent)


async def test_a_refused_key_is_one_sentence_and_the_session_goes_on(server: WireServer, kernel: nova.AgentKernel):
    server.fail("unauthorized")
    with pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY"):
        await kernel.ask(PROMPTS["rule"])
    assert kinds(kernel)[-1] == "Failure:provider"
    assert "UTC" in str(await kernel.ask(PROMPTS["recall"]))


async def test_an_overload_that_stays_is_an_event_and_an_error(server: WireServer, kernel: nova.AgentKernel):
    server.fail("overloaded", times=2)
    with pytest.raises(ModelUnavailable):
        await kernel.ask(PROMPTS["rule"])
    failure = kernel.live.events[-1]
    assert isinstance(failure, Failure)
    assert failure.meta["error"] == "ModelUnavailable"


async def test_an_interrupt_while_the_provider_is_silent_ends_at_once_and_the_next_turn_works(server, kernel):
    server.fail("hang")
    run = kernel.start(PROMPTS["rule"])
    while not server.seen:
        await asyncio.sleep(0.01)
    run.interrupt()
    assert (await run).interrupted
    assert "UTC" in str(await kernel.ask(PROMPTS["recall"]))
