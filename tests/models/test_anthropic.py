"""Claude over the wire: answers, usage, each refusal, and no key anywhere. A local server plays the provider."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nova_nb import examples
from nova_nb.errors import ModelRefused, ModelUnavailable, PromptTooLong
from nova_nb.models.anthropic import AnthropicModel, capabilities
from nova_nb.models.base import Delta
from nova_nb.models.offline import OfflineModel
from nova_nb.projection.cache import mark
from tests.wire.server import WireServer

from .loop import TOOLS, drive, said

KEY = "sk-ant-secret-0123456789"


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(key=KEY) as server:
        yield server


def claude(server: WireServer, name: str = "claude-opus-5-5", **options: Any) -> AnthropicModel:
    return AnthropicModel(name, base_url=server.url, **{"api_key": KEY, **options})


BODY = {"system": "You are a coding agent.", "tools": TOOLS, "messages": said("Why does test_orders fail?"), "max_tokens": 900}


async def test_an_answer_comes_back_as_the_offline_model_gave_it(server: WireServer) -> None:
    deltas: list[Delta] = []
    reply = await claude(server).send(BODY, deltas.append)
    local = await OfflineModel().send(BODY)
    assert reply.content == local.content
    assert reply.stop_reason == "tool_use"
    assert reply.usage == local.usage
    assert reply.model == "claude-opus-5-5"
    text = "".join(d.text for d in deltas if d.kind == "text")
    assert text == local.content[0]["text"]
    assert [d.text for d in deltas if d.kind == "tool_use"] == ["list_files"]
    assert server.seen[-1].body["stream"] is True


async def test_cache_reads_and_writes_are_counted_apart(server: WireServer) -> None:
    body = mark({**BODY, "system": [{"type": "text", "text": "Rules. " * 900}]})
    model = claude(server)
    first, second = await model.send(body), await model.send(body)
    assert first.usage.cache_write > 1_024
    assert first.usage.cache_read == 0
    assert (second.usage.cache_read, second.usage.cache_write) == (first.usage.cache_write, 0)
    assert second.usage.context == first.usage.context


async def test_the_shop_is_repaired_over_the_wire(server: WireServer, tmp_path: Path) -> None:
    shop = examples.workspace("shop", tmp_path / "shop")
    await drive(claude(server), shop, said("All timestamps are stored in UTC. Why does test_orders fail?"))
    assert "utc_now()" in (shop / "shop/orders.py").read_text()


async def test_tokens_are_counted_by_the_provider(server: WireServer) -> None:
    assert await claude(server).count_tokens(BODY) == (await claude(server).send(BODY)).usage.context


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("too_long", PromptTooLong, "prompt is too long: 210000 tokens > 200000 maximum"),
        ("too_large", PromptTooLong, "maximum size"),
        ("bad_request", ModelRefused, "max_tokens: Field required; look at the request"),
        ("unauthorized", ModelRefused, "set ANTHROPIC_API_KEY"),
        ("forbidden", ModelRefused, "another model"),
        ("not_found", ModelRefused, "check the model's name"),
        ("rate_limited", ModelUnavailable, "429 rate_limit_error, request req_test"),
        ("server_error", ModelUnavailable, "500 api_error"),
        ("overloaded", ModelUnavailable, "529 overloaded_error"),
        ("cut", ModelUnavailable, "ask again"),
        ("error_event", ModelUnavailable, "overloaded_error"),
        ("hang", ModelUnavailable, "did not answer in time"),
    ],
)
async def test_each_fault_becomes_one_clear_error(server: WireServer, fault: str, error: type[Exception], words: str) -> None:
    server.fail(fault)
    with pytest.raises(error) as caught:
        await claude(server, max_retries=0, timeout=0.4).send(BODY)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_overload_that_passes_is_waited_out(server: WireServer) -> None:
    server.fail("overloaded", times=2)
    reply = await claude(server).send(BODY)
    assert reply.content
    assert len(server.seen) == 3


async def test_no_server_at_all_is_said_plainly() -> None:
    model = AnthropicModel("claude-opus-5-5", base_url="http://127.0.0.1:1", api_key=KEY, max_retries=0)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await model.send(BODY)


async def test_the_key_is_in_no_repr_and_no_error(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.wire.server.FAULTS", {"unauthorized": (401, "authentication_error", f"bad key {KEY}!")})
    server.fail("unauthorized")
    model = claude(server)
    with pytest.raises(ModelRefused) as caught:
        await model.send(BODY)
    assert "bad key [key]!" in str(caught.value)
    assert KEY not in repr(model) + str(model) + repr(caught.value)
    assert caught.value.__cause__ is None


async def test_without_a_key_the_next_step_is_named(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY"):
        await claude(server, api_key=None).send(BODY)


async def test_what_a_watcher_raises_is_not_taken_for_the_providers_fault(server: WireServer) -> None:
    def broken(delta: Delta) -> None:
        raise ValueError("the watcher's own")

    with pytest.raises(ValueError, match="the watcher's own"):
        await claude(server).send(BODY, broken)


async def test_thinking_comes_back_word_for_word_with_its_signature() -> None:
    with WireServer(key=KEY, thinking=True, prefix_check="error") as server:
        model = claude(server)
        first = await model.send(BODY)
        assert [b["type"] for b in first.content] == ["thinking", "text", "tool_use"]
        call = first.content[2]["id"]
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "README.md"}]}
        again = {**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": first.content}, result]}
        assert (await model.send(again)).content[0]["type"] == "thinking"


def test_a_family_is_found_by_its_longest_name() -> None:
    assert capabilities("claude-opus-5-5-20261001").prefix_check
    assert not capabilities("claude-opus-5").prefix_check
    assert capabilities("claude-opus-5").window_tokens == 1_000_000
    assert capabilities("claude-something-new").window_tokens == 200_000


def test_the_sdk_is_not_loaded_before_the_first_request() -> None:
    code = (
        "import sys; from nova_nb.models.anthropic import AnthropicModel; "
        "AnthropicModel('claude-opus-5'); print('anthropic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
