"""R9.3 usage made one measure, R5.9 what a compaction costs and saves, R9.2 and R9.4 the cache."""

from __future__ import annotations

import math
import tomllib

import pytest

from nova_nb.history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    ProjectionCommitted,
    PromptSet,
    ReplyReceived,
    RequestSent,
    Usage,
)
from nova_nb.projection.cache import LOOKBACK_BLOCKS, explain, is_cold, mark, report, watch
from nova_nb.projection.economics import best_threshold, bill, deal, deals
from nova_nb.projection.usage import PRICES, Price, normalise, price_of
from nova_nb.settings import ContextSettings
from tests.projection.strategies import text

SEED = ContextSettings()


def test_r9_3_openais_cached_tokens_are_taken_out_of_the_input_and_anthropics_are_not():
    anthropic = normalise({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 7})
    chat = normalise({"prompt_tokens": 1_000, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 900}})
    responses = normalise({"input_tokens": 1_000, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 900}})
    assert anthropic == chat == responses == Usage(100, 7, 900, 0)
    assert anthropic.context == 1_000


@pytest.mark.parametrize(
    "raw", [None, {}, {"input_tokens": None}, {"prompt_tokens": "9"}, {"input_tokens": -4}, {"input_tokens": True}]
)
def test_r9_3_counts_that_are_no_counts_are_nothing(raw):
    assert normalise(raw) == Usage()


def test_r9_3_a_cache_read_costs_a_tenth():
    assert Price(10.0, 50.0).cost(Usage(cache_read=1_000_000)) == 1.0
    assert Price(10.0, 50.0).cost(Usage(cache_write=1_000_000)) == 12.5


def test_every_price_says_where_and_when_it_was_read():
    names = [name for provider in tomllib.loads(PRICES.read_text()).values() for name in provider["model"]]
    assert len(names) > 15
    assert all(price_of(name).source and price_of(name).date for name in names)


def test_a_price_is_a_models_own_and_never_that_of_a_sibling():
    assert price_of("anthropic/claude-opus-4-5-20251101").provider == "anthropic"
    assert price_of("gpt-5-2025-08-07").input == price_of("gpt-5").input == 1.25
    assert price_of("gpt-5.4").input == 2.5
    assert price_of("claude-opus-5-5").input != price_of("claude-opus-5").input
    assert [price_of(name) for name in ("gpt-5.9", "gpt-5-nano", "claude-opus-4-5-turbo", None)] == [None] * 4


def test_a_bill_has_dollars_only_where_every_model_has_a_price():
    calls = [(Usage(input=1_000_000), "claude-sonnet-4-5"), (Usage(input=5), "mystery")]
    assert bill(calls)["dollars"] is None
    assert bill(calls)["equivalents"] == 1_000_005
    assert bill([])["dollars"] is None


def test_r5_9_break_even_is_where_the_gain_turns_positive():
    made = deal(1, 167_000, 20_000, remaining=0, summary_tokens=4_000)
    for steps, pays in ((math.floor(made.break_even), False), (math.ceil(made.break_even), True)):
        assert (deal(1, 167_000, 20_000, steps, 4_000).gain > 0) is pays
    assert deal(1, 20_000, 20_000, 50, 4_000).break_even == math.inf
    assert deal(1, 167_000, 20_000, 50, 4_000, hot=False).cost > made.cost


def test_r5_9_at_each_step_of_a_session_late_and_small_ones_do_not_pay():
    contexts = [5_000 + 1_500 * n for n in range(100)]
    found = deals(contexts, SEED)
    assert [d.step for d in found] == list(range(1, 101))
    assert found[0].gain < 0
    assert found[-1].gain < 0
    assert max(found, key=lambda d: d.gain).step in range(40, 70)


def test_r5_9_the_best_threshold_is_the_least_of_the_cost_curve():
    after, growth, summary = 12_000, 1_100, 2_000

    def cost(threshold):
        steps = (threshold - after) / growth
        return (0.1 * (after + threshold) / 2) + (after * 1.35 + summary * 5) / steps

    best = best_threshold(growth, after, summary)
    assert all(cost(best) <= cost(best + d) for d in (-3_000, -500, 500, 3_000))


def test_r9_2_the_system_block_the_last_tool_and_the_tail_of_the_last_user_message_are_marked_on_copies():
    tools = [{"name": "a"}, {"name": "b"}]
    messages = [{"role": "user", "content": [text("one")]}, {"role": "assistant", "content": [text("two")]},
                {"role": "user", "content": [text("three"), text("four")]}]  # fmt: skip
    body = {"system": [text("You help."), text("project")], "tools": tools, "messages": messages}
    marked = mark(body)
    where = [
        *(f"system{i}" for i, b in enumerate(marked["system"]) if "cache_control" in b),
        *(f"tool{i}" for i, b in enumerate(marked["tools"]) if "cache_control" in b),
        *(f"{i}.{j}" for i, m in enumerate(marked["messages"]) for j, b in enumerate(m["content"]) if "cache_control" in b),
    ]
    assert where == ["system0", "tool1", "2.1"]
    assert "cache_control" not in str(body)


@pytest.mark.parametrize(("blocks", "marks"), [(LOOKBACK_BLOCKS, 1), (LOOKBACK_BLOCKS + 1, 2)])
def test_a_fourth_mark_stands_where_the_last_request_ended_when_that_is_out_of_reach(blocks, marks):
    messages = [{"role": "user", "content": [text("ask")]}, {"role": "assistant", "content": [text("x")] * (blocks - 1)},
                {"role": "user", "content": [text("r")]}]  # fmt: skip
    assert str(mark({"messages": messages})["messages"]).count("cache_control") == marks
    assert str(mark({"messages": messages}, marks=3)["messages"]).count("cache_control") == 1


def test_r9_4_a_broken_prefix_names_the_event_that_moved_it():
    assert explain(100, 100, []) is None
    cases = {
        "compaction": CompactionBoundaryCreated(id="e"),
        "reclaim": ProjectionCommitted(id="e", action="reclaim", targets=["x"], reason="old search"),
        "prompt": PromptSet(id="e"),
        "branch": BranchSelected(id="e", leaf=None),
    }
    for cause, event in cases.items():
        found = explain(1_000, 200, [event])
        assert (found.cause, found.event, found.lost_bytes) == (cause, "e", 800)
    assert explain(1_000, 200, []).cause == "unknown"


def test_a_miss_is_told_apart_expired_moved_and_unexpected_and_a_small_shortfall_is_none():
    before = Usage(cache_write=100_000)
    assert watch(before, Usage(cache_read=95_000), 10, SEED) is None
    assert watch(before, Usage(cache_read=94_999), 10, SEED).reason == "unexpected"
    assert watch(before, Usage(), 301, SEED).reason == "expired"
    assert watch(before, Usage(), 300, SEED).reason == "unexpected"
    assert watch(before, Usage(), 10, SEED, explain(9, 1, [])).reason == "moved"
    assert watch(Usage(cache_write=1_999), Usage(), 10, SEED) is None


def test_a_cache_is_cold_after_its_life_and_never_where_a_time_is_missing():
    assert is_cold("2026-01-01T00:00:00Z", "2026-01-01T00:05:01Z", SEED)
    assert not is_cold("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", SEED)
    assert not is_cold("", "2026-01-01T00:05:00Z", SEED)
    assert not is_cold("2026-01-01T00:00:00", "2026-01-01T00:05:01Z", SEED)


def test_a_report_names_for_each_request_what_moved_its_prefix_and_the_miss_that_nothing_explains():
    def pair(n, prefix, total, usage, second):
        at = f"2026-01-01T00:00:{second:02}Z"
        sent = RequestSent(id=f"r{n}", at=at, step=n, prefix_bytes=prefix, total_bytes=total)
        return [sent, ReplyReceived(id=f"p{n}", request=f"r{n}", usage=usage)]

    events = [
        *pair(1, 0, 1_000, Usage(cache_write=50_000), 0),
        *pair(2, 1_000, 1_200, Usage(input=300, cache_read=50_000), 5),
        *pair(3, 1_200, 1_400, Usage(input=50_600), 9),
        ProjectionCommitted(id="k", action="reclaim", targets=["x"]),
        *pair(4, 300, 1_100, Usage(cache_write=40_000), 12),
    ]
    seen = report(events, SEED)
    assert [s.broken and s.broken.cause for s in seen] == [None, None, None, "reclaim"]
    assert [s.miss and s.miss.reason for s in seen] == [None, None, "unexpected", None]
