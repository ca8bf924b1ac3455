"""The kind of a fault is recognised, in sessions of other lengths, with other tools and at other places; and without it
the same sessions are clear."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nova_nb as nova

from .sessions import FAULTS, Claude, Planted, sound

seeds = st.integers(0, 10_000)
turns = st.integers(2, 9)


def wrong(planted: Planted, folder: Path) -> list[str]:
    # two levels down: a folder beside this one may hold another example's file of the same session
    report = nova.open_session(planted.write(folder / "projects" / "one")).diagnose()
    found = [f for f in report.findings if f.layer in planted.layers and (f.role == "cause" or report.verdict != "fault")]
    problems = []
    if report.verdict not in planted.verdicts:
        problems.append(f"verdict {report.verdict}")
    if planted.layers and not found:
        problems.append(f"nothing in {planted.layers}")
    if planted.lines and not any(planted.lines & set(f.lines) for f in found):
        problems.append(f"lines {[f.lines for f in found]}, not {planted.lines}")
    others = [f"{f.layer}/{f.code} {f.lines}" for f in report.causes if f.layer not in planted.layers]
    if others:
        problems.append(f"false causes {others}")
    return problems


@pytest.mark.parametrize("kind", FAULTS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds, before=turns, after=turns)
def test_a_planted_fault_is_named_and_nothing_else(kind: str, seed: int, before: int, after: int):
    with TemporaryDirectory() as folder:
        assert wrong(FAULTS[kind](seed, before, after), Path(folder)) == []


@settings(max_examples=60, deadline=None)
@given(seed=seeds, before=turns, after=turns)
def test_the_same_sessions_without_a_fault_are_clear(seed: int, before: int, after: int):
    with TemporaryDirectory() as folder:
        assert wrong(sound(seed, before, after), Path(folder)) == []


def test_two_faults_in_one_session_are_both_found(tmp_path: Path):
    planted = FAULTS["silent_hook"](3, 4, 3)
    lines = planted.files["session.jsonl"].split(b"\n")
    lines.insert(5, b"\0" * 300)
    planted.files["session.jsonl"] = b"\n".join(lines)
    report = nova.open_session(planted.write(tmp_path)).diagnose()
    assert {f.layer for f in report.causes} == {"log", "memory"}


@pytest.mark.parametrize(("after_the_preface", "causes"), [("Summary: orders go to UTC.", []), ("", ["error-as-summary"])])
def test_a_summary_on_the_line_of_its_preface_is_a_summary(after_the_preface: str, causes: list[str], tmp_path: Path):
    made = Claude(Random(1))
    made.turns(2)
    _, row = made.compact("")
    preface = "This session is being continued from a previous conversation that ran out of context. "
    row["message"]["content"] = preface + after_the_preface
    made.turn()
    file = tmp_path / "project" / "session.jsonl"  # not beside the folder of another test, where the same session may be
    file.parent.mkdir()
    file.write_bytes(made.data())
    report = nova.open_session(file).diagnose()
    assert [f.code for f in report.causes] == causes


def test_a_neighbouring_file_that_is_gone_by_the_time_it_is_read_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = nova.open_session(FAULTS["moved_transcript"](1, 3, 8).write(tmp_path))
    assert [f.code for f in session.diagnose().causes] == ["moved-transcript"]
    for file in tmp_path.rglob("*.jsonl"):
        if str(file) != session.path:
            file.unlink()
            monkeypatch.setattr("nova_nb.diagnosis.checks.runtime._siblings", lambda _, file=file: [(1_000, file)])
    assert nova.open_session(session.path).diagnose().causes == ()
