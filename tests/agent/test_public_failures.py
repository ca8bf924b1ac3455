"""What public agents got wrong with their sessions, each with the test that holds it here.

Knows: the list of failures (from changelogs and issue trackers of sixteen systems). A failure whose test is elsewhere is
named in the table, and the table is checked; the others are tested below.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from nova_nb.agent.kernel import AgentKernel
from nova_nb.history import library
from nova_nb.history.events import CompactionBoundaryCreated, ToolResultExternalized
from nova_nb.models.base import Reply
from nova_nb.projection.compaction import plan
from nova_nb.projection.invariants import safe_cuts
from nova_nb.settings import ContextSettings
from tests.agent.scripted import Scripted, call, calls
from tests.agent.test_compact import SMALL, SUMMARY, fill, of, said
from tests.history.helpers import say, session, words
from tests.projection.strategies import message, text
from tests.projection.test_projector import projector

HELD = {
    "a torn last line": "test_a_log_cut_at_every_byte_of_its_last_three_records_resumes",
    "a run of NUL bytes in the middle of the file": "test_no_bytes_are_fatal",
    "U+2028 inside a string": "test_separators_that_other_splitters_cut_at_stay_in_their_line",
    "half a surrogate pair": "test_half_a_surrogate_pair_comes_back_as_what_will_be_read",
    "two records on one line": "test_two_records_on_a_line_are_both_read",
    "an event type of a newer version": "test_an_unknown_event_survives_a_resume_byte_for_byte",
    "more than 100,000 events out of order": "test_more_than_a_hundred_thousand_events_keep_their_order",
    "a crash between the event and the state": "test_what_stands_beside_the_log_may_be_lost_at_any_time",
    "hundreds of leaves, the wrong one resumed": "test_of_hundreds_of_leaves_the_recorded_head_is_resumed",
    "a fork around a compaction without its lineage": "test_a_fork_from_a_node_behind_a_boundary_sees_what_was_there",
    "a rewind past a compaction that stays compacted": "test_rewinding_past_a_compaction_brings_the_originals_back",
    "a fork that copies the history": "test_a_fork_adds_no_bytes_of_history",
    "an orphan call that switches compaction off": "test_a_call_without_a_result_does_not_stand_in_the_way_of_compaction",
    "parallel results lost on resume": "test_a_resume_gives_what_the_live_session_had",
    "a compaction call that overflows itself":
        "test_a_summary_call_that_does_not_fit_is_made_from_less_and_at_the_end_without_the_model",
    "a compaction that grows the context": "test_r5_8_an_empty_larger_or_error_text_changes_nothing",
    "compacting in circles": "test_three_refills_right_after_compaction_stop_and_name_what_refills",
    "a single turn larger than the window":
        "test_one_turn_larger_than_the_tail_is_split_and_its_thinking_leaves_in_the_same_commit",
    "a body of 32 MB": "test_each_fault_becomes_one_clear_error",
    "files and tools gone after a compaction":
        "test_r5_4_the_boundary_is_a_summary_with_the_transcripts_path_an_attachment_of_four_sections_and_the_tail",
    "the attachment twice after a second compaction": "test_a_second_compaction_does_not_repeat_the_attachment_of_the_first",
    "a summary that orders what nobody asked": "test_a_summary_cannot_pass_as_a_request_of_the_person",
    "other bytes after a resume": "test_resume_gives_the_bytes_it_gave_before_it_was_closed",
    "a directory that moves the prefix unseen":
        "test_law_9_another_directory_enters_the_log_before_the_request_that_names_it",
    "reclaim on a hot cache for little": "test_a_hot_prefix_is_not_rewritten_to_free_less_than_it_costs",
    "repairs that differ each time": "test_after_any_events_the_projector_gives_what_project_gives_from_scratch",
    "thinking refused after an edit": "test_the_thinking_that_comes_back_is_always_valid",
    "a trigger on the sum of all calls": "test_the_trigger_goes_by_the_last_calls_usage_and_not_by_the_sum_of_all",
    "a trigger only at the start of a turn": "test_r5_1_it_is_checked_inside_a_turn_too",
    "commits lost on restore": "test_r4_2_old_results_are_reclaimed_when_the_cache_is_cold_and_stay_so_after_a_resume",
    "a poisoned memory taken as an order": "test_r5_7_a_retrieval_from_outside_may_be_used_and_is_quoted_as_data",
    "a stored result gone after a move": "test_a_stored_result_is_read_by_its_old_path_after_the_home_moved",
    "a disk that fills up in an append": "test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_the_log_whole",
}  # fmt: skip


@pytest.mark.parametrize(("failure", "test"), HELD.items(), ids=list(HELD))
def test_each_failure_has_its_test(failure: str, test: str) -> None:
    root = Path(__file__).parents[1]
    assert any(re.search(rf"def {test}\(", path.read_text("utf-8")) for path in root.rglob("test_*.py")), failure


def test_what_stands_beside_the_log_may_be_lost_at_any_time(tmp_path: Path) -> None:
    live = session(tmp_path, "one", "two")
    live.close()
    assert live.directory is not None
    for file in live.directory.iterdir():
        if file.name != "log.jsonl" and file.is_file():
            file.unlink()
    assert words(library.resume(live.session_id, tmp_path)) == ["one", "two"]


def test_of_hundreds_of_leaves_the_recorded_head_is_resumed(tmp_path: Path) -> None:
    live = session(tmp_path, "root")
    root = live.head
    assert root is not None
    leaves = []
    for n in range(375):
        live.rewind(root)
        leaves.append(say(live, f"leaf {n}"))
    live.rewind(leaves[123])
    live.close()
    assert words(library.resume(live.session_id, tmp_path)) == ["root", "leaf 123"]


def test_a_call_without_a_result_does_not_stand_in_the_way_of_compaction() -> None:
    events = [message("u0", None, "user", text("go " * 200))]
    events.append(message("a0", "u0", "assistant", call("t0", "read_file", path="a.py")))
    for n in range(8):
        events.append(message(f"u{n + 1}", events[-1].id, "user", text("x" * 4_000)))
        events.append(message(f"a{n + 1}", events[-1].id, "assistant", text("y" * 4_000)))
    messages = projector(*events).messages
    planned = plan(messages, ContextSettings(tail_min_tokens=1_000))
    assert planned.cut in safe_cuts(messages) and "a0" in planned.summarised


async def test_a_second_compaction_does_not_repeat_the_attachment_of_the_first(make: Any) -> None:
    kernel = make(
        said("ok"), said("ok", 6_700), SUMMARY, said("ok"), said("ok"), said("ok", 6_700), SUMMARY, said("done"), settings=SMALL
    )
    await fill(kernel, 2_500, 2)
    await kernel.ask("and now?")
    await fill(kernel, 2_500, 2)
    await kernel.ask("and again?")
    assert len(of(kernel, CompactionBoundaryCreated)) == 2
    sent = str(kernel.model.bodies[-1]["messages"])
    assert sent.count("## Tools available now") == sent.count("<compaction-summary>") == 1


async def test_the_trigger_goes_by_the_last_calls_usage_and_not_by_the_sum_of_all(make: Any) -> None:
    kernel = make(*(said("ok", 2_000) for _ in range(8)), settings=SMALL)
    for _ in range(8):
        await fill(kernel, 900)
    assert SMALL.hard_line < 8 * 2_000
    assert of(kernel, CompactionBoundaryCreated) == []


async def test_a_stored_result_is_read_by_its_old_path_after_the_home_moved(make: Any, tmp_path: Path) -> None:
    kernel = make(calls(call("t1", "read_file", path="big.txt")), said("ok"), settings=SMALL)
    (tmp_path / "ws" / "big.txt").write_text("".join(f"line {n}\n" for n in range(3_000)) + "the end\n")
    await kernel.ask("read it")
    (stored,) = of(kernel, ToolResultExternalized)
    kernel.close()
    shutil.move(tmp_path / "home", tmp_path / "moved")
    read: Reply = calls(call("t2", "read_file", path=stored.artifact))
    model = Scripted(read, said("ok"))
    with AgentKernel.resume(kernel.live.session_id, home=tmp_path / "moved", model=model) as again:
        assert again.live.artifacts is not None and again.live.artifacts.state(stored.artifact) == "present"
        await again.ask("read the stored result")
        result = model.bodies[-1]["messages"][-1]["content"][0]
    assert not result.get("is_error") and "line 1" in str(result["content"])
