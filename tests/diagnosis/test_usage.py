"""Counted input as a witness: what a rebuilt request cannot have been is flagged, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.diagnosis.usage import Check, check_usage
from tests.conftest import shared

CASES = Path(__file__).parent / "cases"


def check(case: str) -> Check:
    return check_usage(nova.open_session(next((CASES / case).glob("*.jsonl"))))


@pytest.mark.parametrize(
    ("case", "steps"),
    [("backend-started-empty", [11]), ("input-shrinks-without-boundary", [13]), ("skill-text-on-sibling", [4, 5])],
)
def test_a_request_that_cannot_be_what_was_counted_is_flagged(case: str, steps: list[int]) -> None:
    found = check(case)
    assert [doubt.step for doubt in found.doubts] == steps
    assert found.consistent is False


def test_the_sentence_names_both_sizes() -> None:
    (doubt,) = check("backend-started-empty").doubts
    assert "counted 17076 input tokens, fewer than the about 36881" in doubt.message
    assert doubt.line == 33


@pytest.mark.parametrize("case", ["healthy-compaction", "parallel-results-out-of-order", "rewind-by-the-user"])
def test_a_healthy_session_is_consistent(case: str) -> None:
    assert check(case).consistent


def test_too_few_counts_say_nothing(tmp_path: Path) -> None:
    lines = next((CASES / "healthy-compaction").glob("*.jsonl")).read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "short.jsonl"
    path.write_text("".join(lines[:5]), "utf-8")
    found = check_usage(nova.open_session(path))
    assert (found.calls, found.rate, found.consistent) == (0, None, None)


@pytest.mark.parametrize("name", ["claude-code-compaction", "claude-code-short"])
def test_the_packaged_sessions_move_with_their_counts(name: str) -> None:
    assert check_usage(nova.open_session(nova.examples.path(name))).consistent


@pytest.mark.shared
def test_rebuilt_sizes_of_all_real_sessions_move_with_the_counts() -> None:
    calls = doubts = 0
    for file in sorted(shared("samples/claude-code").rglob("*.jsonl")):
        found = check_usage(nova.open_session(file))
        calls += found.calls
        doubts += len(found.doubts)
    assert calls > 1_000
    assert doubts <= 2
