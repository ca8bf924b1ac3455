from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.session import open_session
from tests.conftest import shared
from tests.foreign.captured import atoms


def row(id: str, kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": id, "timestamp": "2026-07-03T08:36:30.418Z", "parentId": None}


def test_what_was_sent_is_read_and_what_was_typed_is_not(tmp_path: Path) -> None:
    calls = [
        {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}},
        {"toolCallId": "c2", "name": "view", "arguments": {}},
    ]
    rows = [
        row("s", "session.start", sessionId="s1", copilotVersion="1.0.64"),
        row("p", "system.message", content="Be brief."),
        row("u1", "user.message", content="typed", transformedContent="<now>typed"),
        row("a1", "assistant.message", content="looking", toolRequests=calls, apiCallId="r1", outputTokens=9),
        row(
            "t1",
            "tool.execution_complete",
            toolCallId="c1",
            success=True,
            result={"content": "short", "detailedContent": "long"},
        ),
        row("t2", "tool.execution_complete", toolCallId="c2", success=False, error={"message": "no file"}),
        row("a2", "assistant.message", content="done", toolRequests=[], apiCallId="r2"),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    session = open_session(path)
    assert session.format.name == "copilot" and [s.record for s in session.steps] == ["a1", "a2"]
    request = session.request(2)
    assert [atom[-1] for atom in atoms(request.messages) if atom[0] != "call"] == ["<now>typed", "looking", "short", "no file"]
    assert [len(m["content"]) for m in request.messages] == [1, 3, 2]
    assert request.system == [{"type": "text", "text": "Be brief."}] and request.basis == "partial" and request.unknown


@pytest.mark.shared
def test_the_sample_opens() -> None:
    session = open_session(shared("samples/copilot-cli/agentv-4f8e.events.jsonl"))
    assert session.log.source.agent_version == "1.0.64-1" and len(session.steps) == 1
    assert session.request(1).system is not None
