"""The server that plays the provider is checked itself: a test double that lets everything pass proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from nova_nb.errors import ModelRefused
from nova_nb.models.anthropic import AnthropicModel

from .checks import BINDING_BETA, Refused, check_prefix, check_protocol, signed_thinking
from .server import WireServer

CALL = {"type": "tool_use", "id": "t1", "name": "list_files", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
ASK = {"role": "user", "content": [{"type": "text", "text": "hello"}]}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [ASK, *messages], "max_tokens": 100, **more}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "assistant", "content": [CALL]}, ASK], "without `tool_result` blocks immediately after: t1"),
        ([{"role": "assistant", "content": [CALL]}], "without `tool_result`"),
        ([{"role": "user", "content": [RESULT]}], "unexpected `tool_use_id`"),
        ([{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}] * 2, "must be unique"),
        ([{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT, RESULT]}], "single result"),
        ([{"role": "assistant", "content": [{"type": "text", "text": " "}]}, ASK], "non-empty"),
        ([{"role": "user", "content": [CALL]}], "can only be in `assistant`"),
    ],
)
def test_what_the_api_refuses_is_refused(messages: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(Refused, match=words):
        check_protocol(body(*messages))


def test_a_whole_exchange_passes() -> None:
    check_protocol(body({"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}))


def grown(turns: int) -> dict[str, Any]:
    """A conversation in which each answer begins with thinking that was signed on what came before."""
    request = body(system="You help.")
    for n in range(turns):
        answer = [signed_thinking(request), {"type": "text", "text": f"answer {n}"}]
        request = {**request, "messages": [*request["messages"], {"role": "assistant", "content": answer}, ASK]}
    return request


def edited(request: dict[str, Any], message: int, text: str) -> dict[str, Any]:
    messages = list(request["messages"])
    messages[message] = {**messages[message], "content": [{"type": "text", "text": text}]}
    return {**request, "messages": messages}


def test_a_conversation_that_only_grows_passes_the_prefix_check() -> None:
    assert check_prefix(grown(4), "", "error")[1] == []


def test_cache_marks_may_move() -> None:
    request = grown(2)
    marked = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    request["messages"][0] = {"role": "user", "content": [marked]}
    assert check_prefix(request, "", "error")[1] == []


@pytest.mark.parametrize("change", ["message", "system", "tools"])
def test_an_edit_before_thinking_is_refused_at_the_first_block_it_breaks(change: str) -> None:
    request = grown(3)
    request = edited(request, 2, "other") if change == "message" else {**request, change: [{"type": "text", "text": "new"}]}
    with pytest.raises(Refused, match=f"messages.{3 if change == 'message' else 1}.content.0: Invalid `signature`"):
        check_prefix(request, "", "error")


def test_drop_block_takes_the_block_and_every_later_one_and_reports_them() -> None:
    request = edited(grown(3), 2, "other") | {"thinking": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
    kept, changes = check_prefix(request, BINDING_BETA, "error")
    assert [c["path"] for c in changes] == ["messages.3.content.0", "messages.5.content.0"]
    assert {c["reason"] for c in changes} == {"prefix_binding_mismatch"}
    assert [b["type"] for m in kept["messages"] for b in m["content"]].count("thinking") == 1
    with pytest.raises(Refused, match="beta header"):
        check_prefix(request, "", "error")


def test_an_account_without_enforcement_gets_a_report() -> None:
    request = edited(grown(2), 0, "other")
    kept, changes = check_prefix(request, "", "report")
    assert kept == request
    assert {c["type"] for c in changes} == {"thinking_mismatch_allowed"}


def test_thinking_may_go_from_the_front_but_not_from_between() -> None:
    def without(request: dict[str, Any], message: int) -> dict[str, Any]:
        return edited(request, message, request["messages"][message]["content"][1]["text"])

    assert check_prefix(without(grown(3), 1), "", "error")[1] == []
    with pytest.raises(Refused, match=r"messages\.5\.content\.0"):
        check_prefix(without(grown(3), 3), "", "error")


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(thinking=True, prefix_check="error") as server:
        yield server


def test_a_plain_json_answer_and_the_dropped_blocks_travel_too(server: WireServer) -> None:
    model = AnthropicModel("claude-opus-5-5", base_url=server.url, api_key=server.key)
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    request = edited(grown(1), 0, "other")

    async def run() -> None:
        with pytest.raises(ModelRefused, match="bound to a different conversation"):
            await model.send(request)
        reply = await model.send({**request, "thinking": binding, "betas": [BINDING_BETA]})
        assert reply.meta["input_transformations"][0]["path"] == "messages.1.content.0"

    asyncio.run(run())
    assert len(server.transformations) == 1
