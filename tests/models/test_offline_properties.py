"""Every decision is a function of the request's bytes: the same bytes, the same reply, and nothing hidden counts."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_nb import examples
from nova_nb.errors import PromptTooLong
from nova_nb.ids import Fixed
from nova_nb.models.base import Delta
from nova_nb.models.offline import OfflineModel, reply_to
from nova_nb.projection.cache import mark
from tests.wire.checks import check_protocol

from .loop import TOOLS, said

PROMPTS = list(examples.scenario("shop")["prompts"].values())
WORDS = st.sampled_from(
    [
        *PROMPTS,
        "hello",
        "",
        "??",
        "用 UTC 存储。还记得约定吗",
        "rename a.b to c",
        "Run `ls -l`",
        "never run the tests",
        "## Goal\n- x",
    ]
)
NAMES = st.sampled_from([t["name"] for t in TOOLS] + ["other"])
RESULTS = st.sampled_from(
    ["", "shop/orders.py\ntests/test_orders.py", "FAILED (failures=1)", "Ran 3 tests\n\nOK", "python: not found", "[cleared]",
     "<persisted-output>\nwritten whole to tool-results/x.txt; read\n</persisted-output>", "\ud800", "x" * 5_000]
)  # fmt: skip
INPUTS = st.dictionaries(
    st.sampled_from(["path", "pattern", "command", "old", "new", "offset"]),
    st.sampled_from(["shop/orders.py", "a", "", "(", 7]),
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A conversation that the wire would take, whatever its content."""
    messages: list[dict[str, Any]] = said(draw(WORDS) or "go")
    for n in range(draw(st.integers(0, 4))):
        calls = [
            {"type": "tool_use", "id": f"t{n}-{i}", "name": draw(NAMES), "input": draw(INPUTS)}
            for i in range(draw(st.integers(0, 2)))
        ]
        messages.append({"role": "assistant", "content": [{"type": "text", "text": draw(WORDS) or "ok"}, *calls]})
        results: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": c["id"], "content": draw(RESULTS), "is_error": draw(st.booleans())}
            for c in calls
        ]
        messages.append({"role": "user", "content": results or [{"type": "text", "text": draw(WORDS) or "and"}]})
    tools = draw(st.sampled_from([TOOLS, TOOLS[:1], []]))
    return {
        "system": draw(WORDS) or "s",
        "tools": tools,
        "messages": messages,
        "max_tokens": draw(st.sampled_from([1, 40, 4_000])),
    }


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_the_same_bytes_give_the_same_reply_and_the_request_is_left_alone(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    assert reply_to(body) == reply_to(copy.deepcopy(body))
    assert body == before


@settings(max_examples=40, deadline=None)
@given(bodies())
def test_what_is_hidden_changes_nothing(body: dict[str, Any]) -> None:
    reply = reply_to(body)
    shuffled = {key: body[key] for key in reversed(list(body))}
    assert reply_to(shuffled) == reply
    assert reply_to(mark(body)) == reply
    assert reply_to({**body, "model": "other", "stream": True, "metadata": {"user_id": "u"}}) == reply


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_a_reply_is_never_empty_and_fits_the_wire(body: dict[str, Any]) -> None:
    content, stop = reply_to(body)
    assert content
    assert stop in ("end_turn", "tool_use", "max_tokens")
    calls = [b for b in content if b["type"] == "tool_use"]
    assert bool(calls) == (stop == "tool_use")
    assert {c["name"] for c in calls} <= {t["name"] for t in body["tools"]}
    results = [{"type": "tool_result", "tool_use_id": c["id"], "content": "x"} for c in calls] or said("next")[0]["content"]
    grown = [*body["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    check_protocol({**body, "messages": grown})


@settings(max_examples=25, deadline=None)
@given(
    WORDS, st.sampled_from(["", "no such file", "[result cleared]", "not allowed", "Traceback", "no matches"]), st.booleans()
)
def test_whatever_the_tools_say_a_turn_comes_to_an_end(task: str, answer: str, failed: bool) -> None:
    messages = said(task or "go")
    for _ in range(25):
        content, stop = reply_to({"messages": messages, "tools": TOOLS, "max_tokens": 4_000})
        if stop != "tool_use":
            return
        calls = [b for b in content if b["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": answer, "is_error": failed} for c in calls]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    pytest.fail(f"no end: {json.dumps(messages[-2:])}")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": "plain"}], "system": "plain"},
        {"messages": [{"role": "user"}], "tools": [{}, None, {"name": "read_file"}]},
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "read_file", "input": None}, 3]}
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result"}, {"type": "text"}, {"type": "image", "source": {}}]}
            ]
        },
    ],
)
def test_an_odd_body_gets_an_answer(body: dict[str, Any]) -> None:
    assert reply_to(body)[0]


async def test_a_prompt_over_the_window_is_refused_in_the_providers_words() -> None:
    with pytest.raises(PromptTooLong, match=r"prompt is too long: \d+ tokens > 50 maximum"):
        await OfflineModel(window_tokens=50).send({"messages": said("x" * 1_000)})


async def test_deltas_are_the_reply_in_parts() -> None:
    deltas: list[Delta] = []
    body = {"messages": said("Why does test_orders fail?"), "tools": TOOLS, "max_tokens": 900}
    reply = await OfflineModel().send(body, deltas.append)
    assert [(d.kind, d.text) for d in deltas] == [("text", "I look at what is here."), ("tool_use", "list_files")]
    assert reply.content[0]["text"] == deltas[0].text


def test_usage_is_the_estimate_of_the_bytes_and_the_clock_changes_cost_alone() -> None:
    body = mark({"system": [{"type": "text", "text": "s" * 9_000}], "messages": said("hello"), "max_tokens": 50})
    early, late = OfflineModel(source=Fixed(tick=1)), OfflineModel(source=Fixed(tick=400))

    async def twice(model: OfflineModel) -> list[Any]:
        return [await model.send(body), await model.send(body)]

    a, b = asyncio.run(twice(early)), asyncio.run(twice(late))
    assert a[1].usage.cache_read > 0
    assert b[1].usage.cache_read == 0
    assert {msgspec.json.encode(r.content) for r in (*a, *b)} == {msgspec.json.encode(a[0].content)}
    assert len({r.usage.context for r in (*a, *b)}) == 1
