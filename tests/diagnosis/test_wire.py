"""`trace` against the wire: for every main request that a server received, whether a planted text was in it.

The right answers come from the captures (`visible.json`), the texts from what was planted. Where a
scenario left one session, its main calls are its main requests, one to one. Where it left several
(a fork, a revert, two runs), each request is looked up among the calls of all files by what was said.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nova_nb.errors import NotASession
from nova_nb.session import Session, list_sessions, open_session
from tests.conftest import SHARED
from tests.foreign.captured import atoms, capture, texts, wire, without_system

pytestmark = pytest.mark.shared

PLANTED = {
    "convention_verbatim": "Project convention, please keep to it: all timestamps are stored in UTC through clock.utc_now(); "
    "never CURRENT_TIMESTAMP",
    "test_failure_output": "FAILED (failures=1)",
    "clock_source": "def utc_now",
    "store_schema": "CREATE TABLE IF NOT EXISTS receipt",
    "duplicate_till_q7": "DUPLICATE-TILL-Q7",
    "plan_a": "Plan A: DEFAULT CURRENT_TIMESTAMP",
}
"""What `visible.json` speaks of. Checked against the bodies below: these strings and its answers agree."""

NO_STEP = {"openai-agents-0.24.0/S3-resume": 1}
"""Requests that left nothing in the session, so that no step stands for them: the store keeps whole turns."""

UNDECIDED = {"claude-code-2.0.77/S2b-compact-auto": 10, "gemini-cli-0.24.0/S2b-compress-auto": 8}
"""Answers of "unsure" where no file holds what was sent: files that Claude Code 2.0 read again after a compaction, and what a
compression of Gemini CLI 0.24 kept. Both are said to be unknown, and neither is claimed as seen."""

SCENARIOS = sorted(p.parent for p in (SHARED / "authentic").glob("*/*/visible.json")) or [None]


def sessions(folder: Path) -> list[Session]:
    """The sessions that a scenario left, those of subagents excepted."""
    try:
        found = list_sessions(folder)
    except NotASession:
        found = []
    if not found and folder.is_dir():
        return [session for path in sorted(folder.iterdir()) for session in sessions(path)]
    return [open_session(info.path, info.session_id or None) for info in found if not _of_subagent(info.path)]


def _of_subagent(path: str) -> bool:
    return "/agent-" in path


def pairs(folder: Path) -> tuple[list[tuple[dict[str, Any], Session, int]], int]:
    """(captured main request, session, step) of a scenario, and how many requests have no step."""
    rows = [row for row in capture(folder) if row["kind"] == "main"]
    steps = [(s, step.number) for s in sessions(folder / "session") for step in s.steps if step.kind == "main"]
    if len(steps) == len(rows) and len({id(s) for s, _ in steps}) == 1:
        return [(row, s, n) for row, (s, n) in zip(rows, steps, strict=True)], 0
    said = [(atoms(without_system(s.request(step=n).messages)), s, n) for s, n in steps]
    out = []
    for row in rows:
        true = atoms(without_system(wire(row["body"])))
        hit = next(((s, n) for mine, s, n in said if mine == true), None)
        if hit is not None:
            out.append((row, *hit))
    return out, len(rows) - len(out)


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: "none" if p is None else f"{p.parent.name}-{p.name}")
def test_trace_agrees_with_every_captured_request(folder: Path | None) -> None:
    if folder is None:
        pytest.skip("../shared/authentic is not on this machine")
    matched, missing = pairs(folder)
    assert missing == NO_STEP.get(f"{folder.parent.name}/{folder.name}", 0)
    traced = cache(lambda session, text: session.trace(text))
    wrong, undecided = [], 0
    for row, session, step in matched:
        for name, text in PLANTED.items():
            assert (text in texts(wire(row["body"]))) == row["visible"][name], f"{name} is not the planted text"
            entry = traced(session, text).at(step)
            if entry.state == "unsure" and session.projection(step).unsure:
                undecided += 1
            elif entry.in_request != row["visible"][name]:
                wrong.append(f"request {row['seq']} step {step}: {name} is {entry.state}, sent: {row['visible'][name]}")
    assert matched
    assert not wrong
    assert undecided <= UNDECIDED.get(f"{folder.parent.name}/{folder.name}", 0)
