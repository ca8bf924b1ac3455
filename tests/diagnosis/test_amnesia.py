"""Why did it forget: loss is told from adherence, the layer is named, and the way back is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.diagnosis.fate import finder
from nova_nb.errors import UsageError

CASES = Path(__file__).parent / "cases"
RULE = "all timestamps are stored in UTC"


def session(name: str) -> nova.Session:
    folder = CASES / name
    return nova.open_session(folder / json.loads((folder / "expected.json").read_text())["open_file"])


@pytest.mark.parametrize(
    ("name", "outcome", "layer"),
    [
        ("rule-present-but-ignored", "had-it", None),
        ("healthy-compaction", "had-it", None),
        ("error-text-as-summary", "lost", "boundary"),
        ("start-hook-silent-after-compaction", "lost", "memory"),
        ("backend-started-empty", "lost", "runtime"),
        ("progress-elided-in-one-pass", "lost", "projection"),
        ("parent-never-written", "lost", "log"),
        ("late-permission-graft", "had-it", None),
    ],
)
def test_the_layer_that_took_a_rule_out(name: str, outcome: str, layer: str | None):
    answer = session(name).why_forgot(RULE)
    assert (answer.outcome, answer.layer) == (outcome, layer)
    if outcome == "lost":
        assert answer.recoverable_from is not None
        assert f"line {answer.first.line}" in answer.answer


def test_a_rule_that_nobody_gave_was_not_forgotten():
    answer = session("healthy-compaction").why_forgot("deploy on Fridays only")
    assert answer.outcome == "never-said"
    assert answer.causes == ()


def test_a_text_is_found_across_line_breaks_and_unicode_forms():
    found = finder("café  au lait")
    assert found("one cafe\u0301\n au lait please")
    assert not found("café au thé")


def test_a_text_in_the_middle_of_a_stored_result_is_on_disk(tmp_path: Path):
    folder = CASES / "spill-cut-short"
    fate = session("spill-cut-short").trace("sku-00051")
    assert folder.is_dir()
    assert fate.first is not None
    assert {entry.state for entry in fate.steps} >= {"disk"}


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_text_is_refused_with_a_hint(text: str):
    with pytest.raises(UsageError, match="give a text"):
        session("healthy-compaction").trace(text)


def test_a_trace_of_what_no_record_holds_says_so_in_words():
    session = nova.open_session(nova.examples.path("claude-code-compaction"))
    assert str(session.trace("never CURRENT_TIMESTAMP")).endswith("\n  no record of this log holds it")
