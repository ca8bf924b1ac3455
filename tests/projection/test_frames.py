"""A compaction of another agent in frames: what stands for the summarised rows, wherever that agent keeps it."""

from pathlib import Path

import pytest

import nova_nb as nova

SESSIONS = Path(nova.__file__).parent / "data" / "sessions"


def frames(name, n=1):
    return {frame.title: frame for frame in nova.open_session(SESSIONS / name).replay("compaction", n).frames}


def test_a_summary_in_a_row_of_its_own_is_the_summary_of_the_replay():
    replay = frames("claude-code-compaction.jsonl")
    assert replay["The summary"].data["text"].startswith("This session is being continued")
    assert replay["The summary"].data["tokens"] == replay["After"].data["tokens"] > 2_000


def test_what_the_agent_puts_in_again_after_a_compaction_counts_as_rebuilt():
    replay = frames("codex-compaction.jsonl", 2)
    rebuilt = replay["Recovery attachment"].data
    assert [text.split(maxsplit=1)[0] for text in rebuilt["sections"]] == ["<permissions", "#", "<environment_context>"]
    parts = (replay[name].data["tokens"] for name in ("The summary", "Kept verbatim", "Recovery attachment"))
    assert abs(replay["After"].data["tokens"] - sum(parts)) <= 3


def test_what_was_said_after_the_compaction_is_no_part_of_it():
    replay = frames("codex-compaction.jsonl", 2)
    assert "The convention was" not in str(replay["After"].data)


@pytest.mark.parametrize("name", ["langgraph-summary.sqlite", "atif-summarization.json"])
def test_a_summary_that_no_message_holds_is_said_to_be_unknown_and_not_to_be_empty(name):
    assert frames(name)["The summary"].text == "not among the messages that the file holds"


def test_a_size_that_was_not_recorded_is_no_zero():
    before = frames("opencode-compaction")["Before"]
    assert before.text.endswith("trigger: not recorded") and before.data["recorded"] is None
