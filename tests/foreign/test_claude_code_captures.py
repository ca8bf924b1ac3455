"""Rebuilt requests of Claude Code against those that a server received from it.

`exact`: the messages are equal (roles, blocks, ids, inputs, texts). `same conversation`: equal but for
reminders and thinking, which old versions keep in no file; then the basis must be "partial" and say so.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import nova_nb as nova
from nova_nb.foreign import claude_code
from nova_nb.history.events import MessageAppended
from nova_nb.projection.pieces import messages_of
from nova_nb.session import Session
from tests.conftest import shared
from tests.foreign.captured import capture, wire

pytestmark = pytest.mark.shared

SCENARIOS = {
    "claude-code-2.0.77": ["S1-plain", "S2b-compact-auto", "S5-kill9"],
    "claude-code-2.1.332": [
        "S1-plain", "S2a-compact-manual", "S2b-compact-auto", "S2d-summarize-from-here-tui",
        "S3-resume", "S4b-rewind-tui", "S5-kill9", "S6-subagent",
    ],
}  # fmt: skip
EXACT = {"claude-code-2.0.77": 13, "claude-code-2.1.332": 85}
"""Main and subagents' requests that are exact; a change may not go below."""
SAME = {"claude-code-2.0.77": 18, "claude-code-2.1.332": 0}


def opened(folder: Path) -> Session:
    files = folder.glob("session/projects/*/*.jsonl")
    return nova.open_session(max(files, key=lambda path: path.stat().st_size))


def blocks(messages: list[Any]) -> list[Any]:
    """Messages with every content as blocks."""
    return [
        {**m, "content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]}
        for m in messages
    ]


REMINDER = re.compile(r"\n*<system-reminder>\n.*?</system-reminder>\n*", re.DOTALL)


def said(messages: list[Any]) -> list[Any]:
    """What was said: without reminders, thinking and the seams between user messages."""
    out: list[list[Any]] = []
    for message in messages:
        kept = []
        for block in message["content"]:
            text = block.get("text") or ""
            if block["type"] == "thinking" or (
                text.startswith("<system-reminder>") and text.rstrip().endswith("</system-reminder>")
            ):
                continue
            if isinstance(block.get("content"), str):
                block = {**block, "content": REMINDER.sub("", block["content"]).strip()}
            kept.append({**block, "text": text.strip()} if text else block)
        if out and out[-1][0] == message["role"]:
            out[-1][1].extend(kept)
        elif kept:
            out.append([message["role"], kept])
    return out


def verdict(mine: list[Any], true: list[Any], basis: str) -> str:
    if mine == true:
        return "exact"
    if said(mine) == said(true):
        return "same conversation" if basis == "partial" else "differing"
    return "partial" if basis == "partial" else "differing"


def file_order(session: Session, answer: str | None) -> list[Any]:
    """The plain reading that most tools use: every message before the answer, in file order."""
    out = []
    for event in session.log.events:
        if event.id == answer:
            break
        if isinstance(event, MessageAppended):
            out.append({"role": event.role, "content": list(event.content)})
    return out


def asked(session: Session, step: int) -> str:
    return str(session.request(step).messages[0]["content"][-1]["text"])


def compared(folder: Path, kinds: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
    """(group, verdict by request rows, verdict by conversation rows alone, verdict of the plain reading)."""
    session, found = opened(folder), []
    for kind in kinds:
        rows = [row for row in capture(folder) if row["kind"] == kind]
        steps = [step for step in session.steps if step.kind == kind]
        assert len(rows) == len(steps)
        if kind == "subagent":  # two agents worked side by side: by what they were asked, then by turn
            rows.sort(key=lambda row: (row["body"]["messages"][0]["content"][-1]["text"], len(row["body"]["messages"])))
            steps.sort(key=lambda step: (asked(session, step.number), len(session.request(step.number).messages)))
        for row, step in zip(rows, steps, strict=True):
            true = blocks(wire(row["body"]))
            request = session.request(step=step.number)
            rebuilt = messages_of(claude_code.rebuild(session.log, step.number).pieces)
            group = "after a resume" if row["process"] > 1 else "after a compaction" if row["after_compaction"] else "live"
            plain = verdict(file_order(session, step.record), true, "rebuilt")
            found.append((group, verdict(request.messages, true, request.basis), verdict(rebuilt, true, request.basis), plain))
            assert wire({"messages": request.body["messages"]}) == request.messages
    return found


@pytest.mark.parametrize("version", SCENARIOS)
def test_requests_are_those_that_were_sent(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for name in SCENARIOS[version]:
        kinds = ("main", "subagent") if name == "S6-subagent" else ("main",)
        results += compared(shared(f"authentic/{version}/{name}"), kinds)
    with capsys.disabled():
        print(f"\n{version}: {len(results)} requests")
        for group in ("live", "after a compaction", "after a resume"):
            of = [r for r in results if r[0] == group]
            for column, reading in ((1, "request rows"), (2, "conversation rows"), (3, "plain file order")):
                print(f"  {group:18} {reading:17} {dict(Counter(r[column] for r in of))}")
    for column in (1, 2):
        counts = Counter(result[column] for result in results)
        assert counts["differing"] == 0
        assert counts["exact"] >= EXACT[version]
        assert counts["same conversation"] >= SAME[version]


def test_requests_of_the_newest_version_are_recorded() -> None:
    session = opened(shared("authentic/claude-code-2.1.332/S5-kill9"))
    assert {step.basis for step in session.steps} == {"recorded"}
    request = session.request(step=1)
    assert request.system
    assert request.tools
    assert request.body["max_tokens"] == 32000


def test_a_resume_of_the_newest_version_goes_on_from_the_last_request_byte_for_byte() -> None:
    for name in SCENARIOS["claude-code-2.1.332"]:
        session = opened(shared(f"authentic/claude-code-2.1.332/{name}"))
        last = [step.number for step in session.steps if step.kind == "main"][-1]
        assert session.request(last).diff(session.request()).extends, name


def test_the_recorded_hashes_are_those_of_the_rebuilt_messages() -> None:
    for name in SCENARIOS["claude-code-2.1.332"]:
        found = opened(shared(f"authentic/claude-code-2.1.332/{name}")).verify()
        assert {check.state for check in found.checks} == {"same"}, str(found)


def test_a_prompt_that_no_file_holds_is_listed_as_a_step_that_lacks_it() -> None:
    session = opened(shared("authentic/claude-code-2.0.77/S5-kill9"))
    lost = [step for step in session.steps if step.kind == "main"][8]
    assert (lost.basis, lost.line) == ("partial", 36)
    assert "inferred from the queue" in session.request(step=lost.number).unknown[0]
