"""Law 8: no cut parts a call from its result, a batch, two results of a call, or thinking from its turn."""

from __future__ import annotations

from hypothesis import given, settings

from nova_nb.history.events import CompactionBoundaryCreated
from nova_nb.projection.calls import grouped
from nova_nb.projection.invariants import PROPERTIES, PROTOCOL, batches, matching, rebuilt, safe_cuts, thinking, uniqueness
from nova_nb.projection.pieces import messages_of
from nova_nb.projection.project import pieces_of, project
from tests.projection.strategies import broken, call, message, result, text, turns, wire_errors

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def messages(*nodes):
    return grouped([p for n in nodes for p in pieces_of(n)])


def chat(*parts):
    roles = {"tool_use": "assistant", "thinking": "assistant"}
    nodes = []
    for i, blocks in enumerate(parts):
        role = blocks[0] if isinstance(blocks[0], str) else roles.get(blocks[0]["type"], "user")
        nodes.append(message(f"m{i}", None, role, *(b for b in blocks if not isinstance(b, str))))
    return messages(*nodes)


ASK, DONE = (text("go"),), ("assistant", text("done"))


def test_a_call_and_its_result_stay_on_one_side():
    assert matching(chat(ASK, (call("t1"), call("t2")), (result("t1"),), (result("t2"),), DONE)) == {0, 1, 4, 5}


def test_a_batch_in_several_rows_stays_together():
    assert batches(chat(ASK, (call("t1"),), (call("t2"),), (result("t1"),), (result("t2"),), DONE)) == {0, 1, 3, 5, 6}


def test_two_results_of_one_call_stay_on_one_side():
    assert uniqueness(chat(ASK, (call("t1"),), (result("t1"),), DONE, (result("t1"),), DONE)) == {0, 1, 2, 5, 6}


def test_thinking_stays_with_its_tool_loop():
    loop = (ASK, (THOUGHT, call("t1")), (result("t1"),), (call("t2"),), (result("t2"),), DONE, ASK, DONE)
    assert thinking(chat(*loop)) == {0, 1, 6, 7, 8}
    plain = (ASK, (call("t1"),), (result("t1"),), DONE)
    assert thinking(chat(*plain)) == {0, 1, 2, 3, 4}


def test_a_summary_and_its_attachment_are_not_parted():
    node = CompactionBoundaryCreated(id="c", content=[text("s")], attachment=[text("a")])
    assert rebuilt(messages(node, message("m", "c", "user", text("go")))) == {0, 2, 3}


@given(turns(max_turns=4))
@settings(max_examples=60, deadline=None)
def test_both_sides_of_every_safe_cut_are_whole_on_their_own(events):
    whole = grouped([p for e in events for p in pieces_of(e)])
    cuts = safe_cuts(whole)
    assert {0, len(whole)} <= set(cuts) <= set(safe_cuts(whole, PROTOCOL))
    for cut in cuts:
        for side in (whole[:cut], whole[cut:]):
            errors = wire_errors(messages_of([p for m in side for p in m]))
            assert [e for e in errors if "first message" not in e] == []


@given(turns(max_turns=5))
@settings(max_examples=60, deadline=None)
def test_cuts_from_a_place_on_are_those_of_the_whole(events):
    whole = grouped(project([CompactionBoundaryCreated(id="c", content=[text("s")], attachment=[text("a")]), *events]).pieces)
    for properties in (PROPERTIES, PROTOCOL):
        cuts = safe_cuts(whole, properties)
        for since in range(len(whole) + 1):
            assert safe_cuts(whole, properties, since) == [cut for cut in cuts if cut >= since]


@given(broken())
@settings(max_examples=60, deadline=None)
def test_a_broken_history_has_its_ends_as_cuts_and_each_property_is_asked(events):
    repaired = grouped(project([e for e in events if hasattr(e, "role")]).pieces)
    cuts = set(safe_cuts(repaired))
    assert {0, len(repaired)} <= cuts
    assert cuts == set.intersection(*(holds(repaired) for holds in PROPERTIES))
