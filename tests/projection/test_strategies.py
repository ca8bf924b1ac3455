"""Strategies over the same conversations: valid, within the window, deterministic, and each true to its rule."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import nova_nb as nova
from nova_nb.errors import UsageError
from nova_nb.history.events import (
    CompactionBoundaryCreated,
    Failure,
    Note,
    ProjectionCommitted,
    RequestSent,
    ToolResultExternalized,
)
from nova_nb.projection.pieces import block_chars
from nova_nb.projection.projector import Projector
from nova_nb.projection.rerun import conversation, message_lengths, rerun
from nova_nb.projection.strategies import STRATEGIES, strategy_for
from nova_nb.projection.strategies.full import FullStack
from nova_nb.settings import ContextSettings, settings_from
from tests.conftest import shared
from tests.projection.strategies import call, message, result, text, turns, wire_errors

SMALL = settings_from("workshop")


def requests(events, settings=SMALL):
    """Each request of a log, made again from its events."""
    live = Projector(settings)
    for event in events:
        if isinstance(event, RequestSent):
            yield event, live.request()
        live.add(event)


def long_session(n=40, size=900):
    out = [message("u0", None, "user", text("All timestamps in db/time.py are UTC, never CURRENT_TIMESTAMP."), origin="person")]
    for i in range(n):
        out.append(message(f"a{i}", out[-1].id, "assistant", call(f"t{i}", "read_file", path=f"src/f{i % 7}.py")))
        out.append(message(f"r{i}", out[-1].id, "user", result(f"t{i}", f"f{i} " + "z" * size)))
        if i % 5 == 4:
            out.append(message(f"d{i}", out[-1].id, "assistant", text(f"Looked at src/f{i % 7}.py")))
            out.append(message(f"q{i}", out[-1].id, "user", text(f"Now check db/time.py again, round {i}"), origin="person"))
    return [*out, message("end", out[-1].id, "assistant", text("done"))]


@pytest.mark.parametrize("name", STRATEGIES)
@given(events=turns(min_turns=3, max_turns=7))
@hypothesis_settings(max_examples=15, deadline=None)
def test_every_strategy_sends_valid_requests_and_is_deterministic(name, events):
    log = rerun(events, STRATEGIES[name](SMALL), SMALL)
    for sent, request in requests(log):
        assert wire_errors(request.messages) == []
        assert request.hash == sent.hash
    assert rerun(events, STRATEGIES[name](SMALL), SMALL) == log


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_holds_the_window_over_a_long_session(name):
    log = rerun(long_session(), STRATEGIES[name](SMALL), SMALL)
    sizes = [e.tokens for e in log if isinstance(e, RequestSent)]
    assert len(sizes) == 49
    assert max(sizes) <= SMALL.hard_line


def shares(name):
    sent = [e for e in rerun(long_session(150), STRATEGIES[name](SMALL), SMALL) if isinstance(e, RequestSent)]
    return sum(e.prefix_bytes for e in sent[1:]) / sum(e.total_bytes for e in sent[1:])


def test_the_full_stack_keeps_more_of_the_prefix_than_a_sliding_window_or_masking():
    full = shares("full")
    assert full > shares("window-tokens")
    assert full > shares("masking")


def test_the_rule_of_the_first_message_is_lost_by_a_window_and_kept_by_layers_and_the_stack():
    def last_request(name):
        return list(requests(rerun(long_session(), STRATEGIES[name](SMALL), SMALL)))[-1][1].canonical

    assert b"never CURRENT_TIMESTAMP" not in last_request("window-tokens")
    for name in ("layered", "layered-retrieval", "rolling-summary", "full"):
        assert b"never CURRENT_TIMESTAMP" in last_request(name)


def test_masking_keeps_the_newest_ten_results_whole():
    last = list(requests(rerun(long_session(20, 300), STRATEGIES["masking"](SMALL), SMALL)))[-1][1]
    states = [p.state for p in last.pieces if p.block["type"] == "tool_result"]
    assert states[-10:] == ["whole"] * 10
    assert set(states[:-10]) == {"placeholder"}


def test_the_middle_cut_keeps_five_thousand_characters_of_both_ends():
    long = "a" * 6_000 + "b" * 6_000
    events = [
        message("u", None, "user", text("go")),
        message("a", "u", "assistant", call("t")),
        message("r", "a", "user", result("t", long)),
    ]
    log = rerun(
        [*events, message("z", "r", "assistant", text("ok"))], STRATEGIES["middle-cut"](ContextSettings()), ContextSettings()
    )
    content = next(e for e in log if e.id == "r").content[0]["content"]
    assert content.startswith("a" * 5_000 + "\n[")
    assert content.endswith("]\n" + "b" * 5_000)


def test_a_window_by_count_caps_each_message_as_it_arrives():
    log = rerun(long_session(), STRATEGIES["window-count"](SMALL), SMALL)
    cap = int(SMALL.soft_line * SMALL.chars_per_token / 60)
    content = next(e for e in log if e.id == "r0").content[0]["content"]
    assert content == ("f0 " + "z" * 900)[:cap] + f"\n[cut at {cap:,} of 903 characters]"


def test_a_policy_is_settings_a_preset_changes_or_a_strategy():
    assert strategy_for(None, SMALL)[1] is SMALL
    assert strategy_for({"preview_chars": 7}, SMALL)[1].preview_chars == 7
    own = STRATEGIES["masking"](SMALL)
    assert strategy_for(own, SMALL)[0] is own
    with pytest.raises(UsageError, match="layered-retrieval"):
        strategy_for("slidng", SMALL)


def test_message_lengths_are_counted_by_who_wrote_them():
    lengths = message_lengths(long_session(5))
    assert len(lengths["tool"]) == 5
    assert lengths["tool"][0] == 903
    assert len(lengths["person"]) == 2


def carried(settings, turns=700):
    """Of a session of large results: share of the requests' characters that the request before began with, new characters
    a request, and cost a request (new + a tenth of cached)."""
    strategy, live = FullStack(settings, summarise=lambda _: "What was done so far. " * 90), Projector(settings)
    total = same = 0
    before = []
    for n in range(turns):
        for role, block in (("assistant", call(f"t{n}")), ("user", result(f"t{n}", f"{n} " + "line of output\n" * 400))):
            arrived, events = strategy.arrive(message(f"{role}{n}", None, role, block))
            for event in events:
                live.add(event)
            live.add(msgspec.structs.replace(arrived, parent=live.head))
        for event in strategy.before_request(live, ""):
            live.add(event)
        messages = live.request().messages
        live.add(RequestSent(id=f"r{n}", step=n, leaf=live.head))
        kept = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, messages, strict=False))))
        sizes = [sum(map(block_chars, m["content"])) for m in messages]
        same, total, before = same + sum(sizes[:kept]), total + sum(sizes), messages
    return same / total, (total - same) / turns, (total - 0.9 * same) / turns


def test_the_lean_preset_has_at_least_the_share_of_the_default_at_about_half_its_cost():
    default, lean = carried(ContextSettings()), carried(settings_from("lean"))
    assert lean[0] >= default[0]
    assert lean[1] < default[1]
    assert lean[2] < 0.55 * default[2]


async def test_what_if_over_a_nova_session_is_a_session_itself(tmp_path):
    kernel = nova.AgentKernel(tmp_path, home=tmp_path / "home", permission="allow", settings="workshop")
    (tmp_path / "big.py").write_text("x = 1  # created_at\n" * 300)
    for _ in range(3):
        await kernel.ask("Read big.py and tell me what it does.")
    session = kernel.session
    same = session.what_if()
    assert [row["sent_step"] for row in same.compare()] == [s.number for s in session.steps if s.kind == "main"]
    assert same.request(step=2).canonical == session.request(step=2).canonical
    tighter = session.what_if({"result_limit_chars": 500})
    assert sum(isinstance(e, ToolResultExternalized) for e in tighter.log.events) >= 1
    assert tighter.trace("created_at").steps
    kernel.close()


def test_what_if_and_replay_over_a_session_of_another_agent():
    folder = shared("samples/claude-code")
    for path in sorted(folder.rglob("*.jsonl"))[:6]:
        session = nova.open_session(path)
        if not any(s.kind == "main" for s in session.steps):
            continue
        other = session.what_if("workshop")
        for step in other.steps:
            assert wire_errors(other.request(step=step.number).messages) == []
        assert len(other.compare()) == len(other.steps)


async def test_a_compaction_replays_as_frames_whose_parts_add_up(tmp_path):
    kernel = nova.AgentKernel(tmp_path, home=tmp_path / "home", permission="allow", settings="workshop")
    (tmp_path / "big.py").write_text("x = 1  # created_at\n" * 90)
    while not any(isinstance(e, CompactionBoundaryCreated) for e in kernel.live.events):
        await kernel.ask("Read big.py and tell me what it does.")
    replay = kernel.session.replay("compaction", 1)
    names = [f.title for f in replay.frames]
    assert names == ["Before", "The cut", "Summarised", "The summary", "Kept verbatim", "Recovery attachment", "After"]
    data = {f.title: f.data for f in replay.frames}
    assert len(data["Summarised"]["pieces"]) + len(data["Kept verbatim"]["pieces"]) == len(data["Before"]["pieces"])
    assert data["After"]["tokens"] < data["Before"]["tokens"]
    assert data["Summarised"]["usage"]["output"] > 0
    with pytest.raises(UsageError, match="no compaction 9"):
        kernel.session.replay("compaction", 9)
    kernel.close()


@given(events=turns(min_turns=4, max_turns=8), window=st.integers(3_000, 9_000), tail=st.integers(200, 900))
@hypothesis_settings(max_examples=40, deadline=None)
def test_under_any_settings_the_stack_is_within_the_hard_line_or_says_why_not(events, window, tail):
    own = SMALL.model_copy(update={"window_tokens": window, "tail_min_tokens": tail, "tail_max_tokens": 2 * tail})
    log = rerun(events, STRATEGIES["full"](own), own)
    for before, event in itertools.pairwise(log):
        if isinstance(event, RequestSent) and event.tokens > own.hard_line:
            assert isinstance(before, Note | Failure | CompactionBoundaryCreated)
    lost = [b for a, b in itertools.pairwise(e for e in log if isinstance(e, RequestSent)) if b.prefix_bytes < a.total_bytes]
    moves = [e for e in log if isinstance(e, CompactionBoundaryCreated | ProjectionCommitted)]
    assert len(lost) <= len(moves)


def test_rows_of_one_answer_are_joined_and_hidden_ones_left_out():
    rows = [
        message("a1", None, "assistant", text("x"), group="g"),
        message("a2", "a1", "assistant", call("t"), group="g"),
        message("s", "a2", "user", text("summary"), meta={"summary": True}),
    ]
    joined = conversation(rows)
    assert [m.id for m in joined] == ["a1"]
    assert len(joined[0].content) == 2
