"""SPEC 3, number by number."""

from __future__ import annotations

import pytest

from nova_nb.history.events import Failure, ToolResultExternalized
from nova_nb.ids import Fixed
from nova_nb.projection.spill import budget_results, externalized, placeholder, reads_back
from nova_nb.settings import ContextSettings
from tests.projection.strategies import result, text

SEED = ContextSettings()


def spill(*results, settings=SEED, fail=(), **more):
    written = {}

    def write(id, whole):
        written[id] = written.get(id, 0) + 1
        if id in fail:
            raise OSError(28, "No space left on device")
        return f"tool-results/{id}.txt"

    blocks, events = budget_results(results, settings, write, ids=Fixed(), **more)
    return [b["content"] for b in blocks], events, written


@pytest.mark.parametrize(("chars", "spilled"), [(50_000, False), (50_001, True)])
def test_r3_1_a_single_result_over_50_000_characters_is_written(chars, spilled):
    contents, events, _ = spill(result("t1", "x" * chars))
    assert bool(events) is spilled
    assert contents[0].startswith("<persisted-output>") is spilled


def test_r3_1_the_placeholder_has_the_first_2_000_characters_path_size_lines_and_type():
    whole = "".join(f"line {i}\n" for i in range(10_000))
    (content,), (event,), _ = spill(result("t1", whole))
    assert whole[:2_000] in content
    assert whole[:2_001] not in content
    for part in ("tool-results/t1.txt", f"{len(whole):,} characters", "10,000 lines", "text/plain"):
        assert part in content
    assert isinstance(event, ToolResultExternalized)
    assert (event.chars, event.lines, event.content_type) == (len(whole), 10_000, "text/plain")
    assert externalized([event]) == {"t1": "tool-results/t1.txt"}


def test_r3_2_all_results_together_at_200_000_stay_and_one_more_spills_the_longest_only():
    stay = [result(f"t{i}", "x" * 40_000) for i in range(5)]
    assert spill(*stay)[1] == []
    contents, events, _ = spill(*stay[:4], result("big", "x" * 40_001))
    assert [e.tool_use_id for e in events] == ["big"]
    assert sum(map(len, contents)) <= 200_000


def test_r3_2_the_longest_go_first_until_the_sum_is_within():
    sizes = [30_000, 45_000, 20_000, 44_000, 43_000, 42_000, 41_000]
    _, events, _ = spill(*(result(f"t{i}", "x" * n) for i, n in enumerate(sizes)))
    assert [e.tool_use_id for e in events] == ["t1", "t3"]


def test_r3_2_one_of_2_000_characters_or_fewer_is_never_spilled():
    many = [result(f"t{i}", "x" * 2_000) for i in range(101)]
    assert spill(*many)[1] == []
    _, events, _ = spill(*many, result("long", "x" * 2_400))
    assert [e.tool_use_id for e in events] == ["long"]


def test_r3_3_a_read_back_is_exempt_and_the_excess_is_accepted():
    contents, events, _ = spill(result("t1", "x" * 250_000), exempt={"t1"})
    assert events == []
    assert len(contents[0]) == 250_000
    assert reads_back({"file_path": "/home/x/.nova/sessions/s/tool-results/t1.txt"})
    assert not reads_back({"file_path": "src/tool-results.py"})


def test_r3_3_a_failed_write_keeps_the_original_and_is_not_tried_again():
    contents, events, written = spill(result("t1", "x" * 210_000), fail={"t1"})
    assert contents == ["x" * 210_000]
    assert written == {"t1": 1}
    assert [type(e) for e in events] == [Failure]
    assert "No space left on device" in events[0].message


def test_r3_3_what_was_spilled_alone_is_not_spilled_again_by_the_sum():
    settings = ContextSettings(aggregate_limit_chars=1_000)
    _, events, written = spill(result("t1", "x" * 60_000), settings=settings)
    assert written == {"t1": 1}
    assert len(events) == 1


@pytest.mark.parametrize("tool", ["grep", "mcp__jira__search"])
def test_r3_6_a_tool_or_mcp_server_may_have_its_own_limit_in_characters_or_tokens(tool):
    for limits in (
        {"tool_limits_chars": {"grep": 700, "mcp:jira": 700}},
        {"tool_limits_tokens": {"grep": 200, "mcp:jira": 200}},
    ):
        settings = ContextSettings(**limits)
        same = {"settings": settings, "tools": {"t1": tool}}
        assert spill(result("t1", "x" * 700), **same)[1] == []
        (content,), events, _ = spill(result("t1", "x" * 2_000), **same)
        assert len(events) == 1
        assert len(content) < 2_000


def test_a_result_of_blocks_keeps_its_images():
    image = {"type": "image", "source": {"data": "…"}}
    (content,), events, _ = spill(result("t1", [text("x" * 50_001), image]))
    assert content[1] == image
    assert content[0]["text"].startswith("<persisted-output>")
    assert events[0].chars == 50_001


def test_a_preview_cannot_close_its_frame_early():
    framed = placeholder("a</persisted-output>b", "tool-results/t1.txt", 2_000)
    assert framed.count("</persisted-output>") == 1
