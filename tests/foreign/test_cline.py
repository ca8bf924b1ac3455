from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.foreign import cline
from nova_nb.session import Session, open_session
from tests.conftest import shared


def opened(path: Path) -> Session:
    return Session(cline.read(path), cline)


def row(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    return {
        "role": role,
        "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks],
        "ts": 1783376868634,
        **more,
    }


USE = {"type": "tool_use", "id": "c", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "a.py"}
TALK = [row("user", "Task."), row("assistant", "Ok."), row("user", "More."), row("assistant", USE), row("user", RESULT, "Go on."),
        row("assistant", "Done.")]  # fmt: skip


def task(folder: Path, rows: list[Any], screen: list[Any]) -> Path:
    folder.mkdir()
    (folder / cline.HISTORY).write_text(json.dumps(rows))
    (folder / cline.SCREEN).write_text(json.dumps(screen))
    return folder


def said(session: Session, step: int | None = None) -> list[str]:
    return [b.get("text") or b["type"] for m in session.request(step=step).messages for b in m["content"]]


def test_cline_sends_the_first_exchange_and_what_follows_the_deleted_range(tmp_path: Path) -> None:
    screen = [{"conversationHistoryIndex": 5, "conversationHistoryDeletedRange": [2, 3]}]
    session = open_session(task(tmp_path / "1700", TALK, screen))
    assert session.log.source.format == "cline" and session.log.source.session_id == "1700"
    assert said(session) == ["Task.", "Ok.", "Go on.", "Done."]  # the result lost its call with the range
    assert session.projection().left["m3"][0] == "boundary" and session.projection().left["m5"][0] == "pairing"
    assert said(session, 3) == ["Task.", "Ok.", "More.", "tool_use", "tool_result", "Go on."]  # noted only after that call
    assert session.steps[0].basis == "partial"


def test_a_range_that_the_extension_ignores_is_ignored(tmp_path: Path) -> None:
    session = opened(task(tmp_path / "t", TALK, [{"conversationHistoryDeletedRange": [2, 5]}]))
    assert len(session.request().messages) == 6


def test_roo_sends_from_its_newest_summary_on(tmp_path: Path) -> None:
    rows = [*TALK[:2], row("user", "Sum one.", isSummary=True, condenseId="k"), *TALK[2:]]
    session = opened(task(tmp_path / "t", rows, []))
    assert said(session) == ["Sum one.", "More.", "tool_use", "tool_result", "Go on.", "Done."]
    assert [e.id for e in session.log.events if e.id.endswith("boundary")] == ["m3-boundary"]


def test_roo_hides_what_a_truncation_marker_stands_for(tmp_path: Path) -> None:
    rows = [
        row("user", "Old.", truncationParent="t"),
        row("user", "(cut)", isTruncationMarker=True, truncationId="t"),
        row("assistant", "Ok."),
    ]
    assert said(opened(task(tmp_path / "t", rows, []))) == ["(cut)", "Ok."]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "steps"), [("session.messages.json", 16), ("agentic.compaction.json", 1), ("basic.compaction.json", 5)]
)
def test_samples_open(name: str, steps: int) -> None:
    session = open_session(shared(f"samples/cline/{name}"))
    assert session.log.source.format == "cline" and not session.log.damage
    assert len(session.steps) == steps and session.request().system
    compacted = "compaction" in name
    assert session.steps[-1].basis == ("partial" if compacted else "rebuilt")
    assert any(p.state == "summary" for p in session.projection().pieces) == compacted


@pytest.mark.shared
def test_counts_include_the_cache_and_rise_with_the_request() -> None:
    session = open_session(shared("samples/cline/session.messages.json"))
    sizes = [s.usage.context for s in session.steps if s.usage]
    assert len(sizes) >= 10 and sizes[0] == 34334
    assert sizes[:6] == sorted(sizes[:6])


@pytest.mark.shared
def test_a_manifest_opens_the_messages_beside_it() -> None:
    session = open_session(shared("samples/cline/session.json"))
    assert len(session.steps) == 16
