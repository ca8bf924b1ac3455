"""R4.2, R4.3, R4.4, R4.7: what may go, when, and that it can be taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from nova_nb.errors import UsageError
from nova_nb.history.events import ProjectionCommitted, ProjectionUndone
from nova_nb.projection.calls import grouped
from nova_nb.projection.capabilities import Capabilities
from nova_nb.projection.fold import runs, widen
from nova_nb.projection.projector import Projector
from nova_nb.projection.reclaim import candidates, decide
from nova_nb.settings import ContextSettings
from tests.projection.strategies import call, message, result, text, turns, wire_errors

OPEN = ContextSettings(chars_per_token=1, reclaim_protect_tokens=0, reclaim_min_tokens=1)


def session(*calls, then=True):
    """A turn with these (tool, arguments, result, is_error) and a later question, as messages of pieces and a projector."""
    live = Projector(OPEN)
    nodes = [message("u1", None, "user", text("go"))]
    for n, (name, arguments, content, bad) in enumerate(calls):
        nodes.append(message(f"a{n}", nodes[-1].id, "assistant", call(f"t{n}", name, **arguments)))
        nodes.append(message(f"r{n}", nodes[-1].id, "user", result(f"t{n}", content, is_error=bad)))
    nodes.append(message("z1", nodes[-1].id, "assistant", text("done")))
    if then:
        nodes.append(message("u2", "z1", "user", text("and now?")))
    for node in nodes:
        live.add(node)
    return live, grouped(live.projection().pieces)


def found(messages, settings=OPEN):
    return [(c.target, c.rule) for c in candidates(messages, settings)]


LONG = "x" * 900


def test_r4_2_the_older_read_of_a_file_read_again_may_go_and_the_newer_stays():
    _, messages = session(("read_file", {"path": "a.py"}, LONG, False), ("read_file", {"path": "a.py"}, LONG, False))
    assert found(messages) == [("r0#t0", "superseded read")]


def test_r4_2_a_partial_read_does_not_supersede_a_whole_one():
    _, messages = session(
        ("read_file", {"path": "a.py"}, LONG, False), ("read_file", {"path": "a.py", "offset": 9}, LONG, False)
    )
    assert found(messages) == []


def test_r4_2_reads_of_a_file_edited_later_may_go_and_the_done_writes_long_arguments_too():
    _, messages = session(
        ("read_file", {"path": "a.py"}, LONG, False), ("write_file", {"path": "a.py", "content": LONG}, "created", False)
    )
    assert found(messages) == [("r0#t0", "superseded read"), ("a1#t1", "done write")]


def test_r4_2_a_failed_edit_supersedes_nothing():
    _, messages = session(
        ("read_file", {"path": "a.py"}, LONG, False), ("write_file", {"path": "a.py", "content": LONG}, "no", True)
    )
    assert found(messages) == []


def test_r4_2_searches_older_than_the_newest_five_may_go():
    _, messages = session(*[("search", {"pattern": f"p{n}"}, LONG, False) for n in range(7)])
    assert found(messages) == [("r0#t0", "old search"), ("r1#t1", "old search")]


def test_r4_2_a_failed_command_may_go_once_the_same_command_succeeded():
    failed, passed = ("run_command", {"command": "pytest"}, LONG, True), ("run_command", {"command": "pytest"}, "ok", False)
    assert found(session(failed, passed)[1]) == [("r0#t0", "resolved failure")]
    assert found(session(failed)[1]) == []


def test_r4_2_the_latest_turn_the_newest_tokens_and_exempt_tools_are_protected():
    twice = [("read_file", {"path": "a.py"}, LONG, False)] * 2
    assert found(session(*twice, then=False)[1]) == []
    messages = session(*twice)[1]
    assert found(messages, OPEN.model_copy(update={"reclaim_protect_tokens": 901})) == []
    assert found(messages, OPEN.model_copy(update={"reclaim_protect_tokens": 900})) != []
    assert found(messages, OPEN.model_copy(update={"reclaim_exempt_tools": ("read_file",)})) == []


def test_r4_2_a_hot_cache_is_left_alone_until_the_window_presses_and_a_cold_one_is_rewritten_at_once():
    messages = session(("read_file", {"path": "a.py"}, "x" * 3_000, False), ("read_file", {"path": "a.py"}, LONG, False))[1]
    assert "hot" in decide(messages, 166_999, OPEN, cold=False).entry.why
    assert decide(messages, 167_000, OPEN, cold=False).targets == ["r0#t0"]
    cold = decide(messages, 5_000, OPEN, cold=True)
    assert cold.targets == ["r0#t0"]
    assert cold.entry.tokens_out < cold.entry.tokens_in


def test_a_hot_prefix_is_not_rewritten_to_free_less_than_it_costs():
    messages = session(("read_file", {"path": "a.py"}, LONG, False), ("read_file", {"path": "a.py"}, "x" * 3_000, False))[1]
    hot = decide(messages, 167_000, OPEN, cold=False)
    assert hot.targets == []
    assert "left to the next compaction" in hot.entry.why
    assert decide(messages, 167_000, OPEN, cold=True).targets == ["r0#t0"]


def test_r4_2_there_is_a_minimum_gain():
    messages = session(*[("read_file", {"path": "a.py"}, LONG, False)] * 2)[1]
    gain = decide(messages, 5_000, OPEN, cold=True)
    saved = gain.entry.tokens_in - gain.entry.tokens_out
    assert decide(messages, 5_000, OPEN.model_copy(update={"reclaim_min_tokens": saved}), cold=True).targets
    assert not decide(messages, 5_000, OPEN.model_copy(update={"reclaim_min_tokens": saved + 1}), cold=True).targets


def test_it_stops_at_the_low_watermark_and_leaves_the_oldest_prefix_alone():
    messages = session(*[("read_file", {"path": "a.py"}, "x" * 5_000, False)] * 20)[1]
    low = OPEN.reclaim_low_line
    some = decide(messages, low + 12_000, OPEN, cold=True)
    assert some.targets == ["r16#t16", "r17#t17", "r18#t18"]


def test_a_model_that_checks_its_prefix_is_never_rewritten_here():
    messages = session(*[("read_file", {"path": "a.py"}, LONG, False)] * 2)[1]
    checked = decide(messages, 170_000, OPEN, cold=True, capabilities=Capabilities(prefix_check=True))
    assert checked.targets == []
    assert "waits for a compaction" in checked.entry.why


def test_r4_7_a_reclaim_is_replayed_as_a_placeholder_and_undone_gives_the_same_bytes_as_before():
    live, messages = session(
        ("read_file", {"path": "a.py"}, LONG, False), ("write_file", {"path": "a.py", "content": LONG}, "ok", False)
    )
    before = live.request().canonical
    targets = decide(messages, 170_000, OPEN, cold=True).targets
    live.add(ProjectionCommitted(id="k", action="reclaim", targets=targets, leaf=live.head))
    after = live.request()
    states = {p.key: p.state for p in after.pieces if p.state != "whole"}
    assert states == {"r0:0": "placeholder", "a1:0": "placeholder"}
    assert {p.original for p in after.pieces if p.state == "placeholder"} == {"r0", "a1"}
    written = next(p for p in after.pieces if p.key == "a1:0").block["input"]
    assert written == {"path": "a.py", "content": "[900 characters, cleared]"}
    live.add(ProjectionUndone(id="x", commit="k"))
    assert live.request().canonical == before


def test_r4_3_a_clip_widens_to_whole_units_and_leaves_with_a_reason():
    live, messages = session(("search", {"pattern": "p"}, LONG, False))
    ids = widen(messages, ["r0"])
    assert ids == ["a0", "r0"]
    live.add(ProjectionCommitted(id="k", action="clip", targets=ids, reason="a dead end"))
    assert live.projection().left == {"a0": ("projection", "a dead end"), "r0": ("projection", "a dead end")}
    assert wire_errors(live.request().messages) == []


def test_r4_4_a_fold_puts_one_text_at_the_place_of_the_first_message():
    live, messages = session(*[("search", {"pattern": "p"}, LONG, False)] * 2)
    live.add(
        ProjectionCommitted(id="k", action="fold", targets=widen(messages, ["a0", "r1"]), text="[searched twice, nothing]")
    )
    sent = live.request().messages
    assert [m["content"][0].get("text") for m in sent] == ["go", "[searched twice, nothing]", "done", "and now?"]
    assert next(p for p in live.projection().pieces if p.state == "folded").sources == ("a0", "r0", "a1", "r1")


def test_scattered_ids_fold_as_separate_runs_and_an_unknown_id_says_so():
    _, messages = session(*[("search", {"pattern": "p"}, LONG, False)] * 3)
    assert runs(messages, ["r0", "r2"]) == [["a0", "r0"], ["a2", "r2"]]
    with pytest.raises(UsageError, match="no message 'nope'"):
        widen(messages, ["nope"])


@given(turns(min_turns=2))
@hypothesis_settings(max_examples=60, deadline=None)
def test_after_a_reclaim_of_any_history_the_request_is_valid_and_smaller_and_reclaims_nothing_twice(events):
    live = Projector(OPEN)
    for event in events:
        live.add(event)
    before = live.request()
    chosen = decide(grouped(before.pieces), live.tokens, OPEN, cold=True)
    if not chosen.targets:
        return
    live.add(ProjectionCommitted(id="k", action="reclaim", targets=chosen.targets, leaf=live.head))
    after = live.request()
    assert wire_errors(after.messages) == []
    assert after.total_bytes < before.total_bytes
    again = decide(grouped(after.pieces), live.tokens, OPEN, cold=True)
    assert not set(again.targets) & set(chosen.targets)
