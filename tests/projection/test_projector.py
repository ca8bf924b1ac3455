"""Laws 2, 3, 5 and 7 at the projection: incremental equals rebuilt, pure, forks share, the prefix holds."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings

from nova_nb.history.chain import nodes, walk
from nova_nb.history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    ReplyReceived,
    RequestSent,
    ToolStarted,
    Usage,
)
from nova_nb.projection.budget import piece_chars
from nova_nb.projection.calls import calls_of, grouped
from nova_nb.projection.pieces import messages_of
from nova_nb.projection.project import project
from nova_nb.projection.projector import Projector
from nova_nb.projection.request import canonical_lines
from nova_nb.settings import ContextSettings
from tests.projection.strategies import broken, call, message, result, text, turns, wire_errors

SEED = ContextSettings()


def projector(*events) -> Projector:
    made = Projector(SEED)
    for event in events:
        made.add(event)
    return made


@given(broken())
@settings(max_examples=150, deadline=None)
def test_after_any_events_the_projector_gives_what_project_gives_from_scratch(events):
    live = Projector(SEED)
    for i, event in enumerate(events):
        live.add(event)
        if i % 3 == 0:
            live.request()
    started = [e.tool_use_id for e in events if isinstance(e, ToolStarted)]
    chain = walk(nodes(events), live.head)
    whole = project(chain, SEED, commits=live.commits, started=started)
    assert list(live.projection().pieces) == list(whole.pieces)
    assert live.messages == grouped(whole.pieces)
    assert live.calls == calls_of(live.messages)
    assert live.chars == sum(piece_chars(p, SEED.chars_per_token) for p in whole.pieces)
    assert live.projection().left == whole.left
    request = live.request()
    assert request.hash == hashlib.sha256(b"".join(canonical_lines(None, None, messages_of(whole.pieces)))).hexdigest()
    assert request.total_bytes == len(request.canonical)
    again = projector(*events)
    assert again.request().canonical == request.canonical
    assert again.tokens == live.tokens


@given(broken())
@settings(max_examples=150, deadline=None)
def test_whatever_the_history_the_wire_takes_the_request(events):
    assert wire_errors(projector(*events).request().messages) == []


@given(turns())
@settings(max_examples=50, deadline=None)
def test_a_whole_history_goes_out_as_it_is_and_each_request_begins_with_the_one_before(events):
    live, last = Projector(SEED), b""
    for n, event in enumerate(events):
        if event.role == "assistant":
            request = live.request()
            assert request.canonical.startswith(last)
            assert request.prefix_bytes == len(last)
            last = request.canonical
            live.add(RequestSent(id=f"r{n}", step=n, leaf=live.head, hash=request.hash))
        live.add(event)
    assert live.request().messages == [{"role": e.role, "content": e.content} for e in events]


def test_a_fork_at_a_node_before_a_commit_does_not_see_it_and_one_after_does():
    events = [
        message("a", None, "user", text("go")),
        message("b", "a", "assistant", call("t1")),
        message("c", "b", "user", result("t1", "x" * 500)),
        message("d", "c", "assistant", text("done")),
    ]
    live = projector(*events[:3])
    before = live.request().canonical
    live.add(events[3])
    live.add(ProjectionCommitted(id="k", action="reclaim", targets=["c#t1"]))
    cleared = live.request().canonical
    assert b"cleared to save context" in cleared
    live.add(BranchSelected(id="x", leaf="c"))
    assert live.request().canonical == before
    live.add(BranchSelected(id="y", leaf="d"))
    assert live.request().canonical == cleared
    live.add(ProjectionUndone(id="u", commit="k"))
    assert b"cleared" not in live.request().canonical


def test_a_commit_moves_the_prefix_and_says_so():
    live = projector(
        message("a", None, "user", text("go")),
        message("b", "a", "assistant", call("t1")),
        message("c", "b", "user", result("t1", "x" * 500)),
        RequestSent(id="r1", step=1, leaf="c"),
        message("d", "c", "assistant", text("done")),
        ProjectionCommitted(id="k", action="reclaim", targets=["c#t1"]),
    )
    request = live.request()
    assert request.prefix_bytes < request.total_bytes - 100
    assert [e.id for e in live.moved] == ["k"]


def test_r4_9_tokens_are_the_last_true_usage_and_3_5_characters_a_token_after_it():
    live = projector(
        message("a", None, "user", text("x" * 350)),
        RequestSent(id="r1", step=1, leaf="a"),
        message("b", "a", "assistant", text("y" * 70)),
    )
    assert live.tokens == 120
    live.add(ReplyReceived(id="p1", request="r1", message="b", usage=Usage(input=400, cache_read=100, output=30)))
    assert live.tokens == 530
    live.add(message("c", "b", "user", text("z" * 36)))
    assert live.tokens == 541


def test_r5_6_the_usage_anchor_is_cleared_by_a_compaction():
    live = projector(
        message("a", None, "user", text("x" * 350)),
        RequestSent(id="r1", step=1, leaf="a"),
        message("b", "a", "assistant", text("y" * 70)),
        ReplyReceived(id="p1", request="r1", message="b", usage=Usage(input=5_000, output=30)),
        CompactionBoundaryCreated(id="k", logical_parent="b", content=[text("s" * 35)], kept=["b"]),
    )
    assert not live.anchored
    assert live.tokens == 30


def test_a_reclaim_lowers_an_anchored_estimate_by_what_it_freed():
    live = projector(
        message("a", None, "user", text("go")),
        message("b", "a", "assistant", call("t1")),
        message("c", "b", "user", result("t1", "x" * 35_000)),
        RequestSent(id="r1", step=1, leaf="c"),
        message("d", "c", "assistant", text("done")),
        ReplyReceived(id="p1", request="r1", message="d", usage=Usage(input=20_000, output=10)),
    )
    live.add(ProjectionCommitted(id="k", action="reclaim", targets=["c#t1"]))
    assert 10_000 <= live.tokens <= 10_060


def test_r4_9_the_budget_is_window_minus_output_system_tools_and_safety():
    live = projector(
        PromptSet(id="p", system=[text("s" * 320)], tools=[{"name": "read"}]),
        message("a", None, "user", text("x" * 350)),
    )
    budget = live.budget
    assert budget.person == 100
    assert budget.history == 200_000 - 20_000 - 2_000 - budget.system - budget.tools
    assert budget.used + budget.free + budget.reserve == budget.window
    assert (budget.soft, budget.hard) == (167_000, 177_000)


def test_r6_2_a_call_that_started_and_has_no_result_is_told_as_unknown():
    events = [message("a", None, "user", text("go")), message("b", "a", "assistant", call("t1"), call("t2"))]
    live = projector(*events, ToolStarted(id="s", tool_use_id="t1"))
    results = live.request().messages[-1]["content"]
    assert "outcome is unknown" in results[0]["content"]
    assert "never started" in results[1]["content"]
    assert [p.state for p in live.projection().pieces[-2:]] == ["repair", "repair"]


def test_r6_2_an_answer_of_thinking_alone_is_left_out_with_a_reason():
    thought = message("a1", "u1", "assistant", {"type": "thinking", "thinking": "hm", "signature": "s"})
    asked, again = message("u1", None, "user", text("why?")), message("u2", "a1", "user", text("well?"))
    projection = projector(asked, thought, again).projection()
    assert [p.sources[0] for p in projection.pieces] == ["u1", "u2"]
    assert projection.left["a1"][0] == "pairing"
    assert wire_errors(messages_of(projection.pieces)) == []
