from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import atoms
from tests.foreign.proof import open_all, prove


def sessions(folder: Path) -> list[Session]:
    return open_all(folder, "session/sessions/*/*/*/rollout-*.jsonl")


def without_made_up_ids(items: list[Any]) -> list[Any]:
    """Input items without what provably stands in no file: the ids of made-up outputs, and the base instructions
    item, whose logged text is sent without the passages on tools that are not offered."""
    out = []
    for i, item in enumerate(items):
        base = i == 0 and item.get("role") == "developer" and len(item["content"][0]["text"]) > 12_000
        made_up = item.get("output") == "aborted"
        out.append("base instructions" if base else {k: v for k, v in item.items() if not (made_up and k == "id")})
    return out


def said(rows: list[Any]) -> list[Any]:
    """What was said in words: not the base instructions, nor an encrypted compaction."""
    rows = [row for row in rows if row != "base instructions"]
    return [atom for atom in atoms(rows) if not {"compaction", "compaction_trigger"} & set(atom)]


@pytest.mark.shared
@pytest.mark.parametrize(("agent", "exact"), [("codex-0.171.0", 93), ("codex-0.98.0", 33)])
def test_every_captured_request_is_rebuilt_exactly(agent: str, exact: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = prove(agent, sessions, without_made_up_ids, said)
    with capsys.disabled():
        print("\n" + tally.table(agent))
    assert tally.total("exact") >= exact, tally.table(agent)


@pytest.mark.shared
def test_all_sample_rollouts_open_and_every_step_has_a_request() -> None:
    for path in sorted(shared("samples/codex").glob("*.jsonl")):
        session = open_session(path)
        assert session.format.name == "codex"
        for step in session.steps:
            request = session.request(step.number)
            assert len(request.body["input"]) >= len(request.messages)
        assert set(session.format.reachable(session.log)) <= set(session.format.conversation(session.log))
