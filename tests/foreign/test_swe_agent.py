from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.errors import SessionNotFound
from nova_nb.foreign import swe_agent
from nova_nb.session import Session
from tests.conftest import shared
from tests.foreign.captured import atoms, without_system


def opened(path: Path, session_id: str | None = None) -> Session:
    return Session(swe_agent.read(path, session_id), swe_agent)


def as_chat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "tool_call_id": (row.get("tool_call_ids") or [""])[0]}


@pytest.mark.shared
def test_each_call_has_exactly_the_recorded_input() -> None:
    path = shared("samples/swe-agent/marshmallow-1867-function_calling.traj")
    steps = json.loads(path.read_text())["trajectory"]
    session = opened(path)
    assert len(session.steps) == len(steps) == 13
    for n in range(2, 14):
        request = session.request(step=n)
        true = [as_chat(m) for m in steps[n - 2]["messages"]]  # taken after a step: the input of the next
        assert request.basis == "recorded"
        assert atoms(without_system(request.messages)) == atoms(without_system(true))
        assert [m["role"] for m in request.body["messages"]] == [m["role"] for m in true]
    assert [m["role"] for m in session.request(step=1).messages] == ["user"]
    assert session.request(step=1).basis == "rebuilt"
    cut = [p for p in session.projection(step=9).pieces if p.state == "placeholder"]
    assert cut and cut[0].original == "h4" and "lines omitted" in str(cut[0].block)


@pytest.mark.shared
def test_an_old_run_is_rebuilt_with_the_default_rule_and_says_so() -> None:
    session = opened(shared("samples/swe-agent/pydicom-1458-old.traj"))
    assert len(session.steps) == 12
    assert [s.basis for s in session.steps[:4]] == ["rebuilt"] * 4 and session.steps[-1].basis == "partial"
    texts = [str(b) for m in session.request(step=12).messages for b in m["content"]]
    assert sum("Old output omitted" in t for t in texts) == 6
    assert session.request(step=12).unknown == (swe_agent.ASSUMED,)


ROWS = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Fix."}, {"role": "assistant", "content": "ls"},
        {"role": "user", "content": "a.py\nb.py"}, {"role": "assistant", "content": "submit"}]  # fmt: skip
STEPS = [
    {"action": "ls", "observation": "a.py\nb.py", "response": "ls"},
    {"action": "submit", "observation": "", "response": "submit"},
]


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_query_is_the_input_of_its_own_step(tmp_path: Path) -> None:
    steps = [{**STEPS[0], "query": ROWS[:2]}, {**STEPS[1], "query": [*ROWS[:3], {"role": "user", "content": "(cut)"}]}]
    session = opened(write(tmp_path / "a.traj", {"trajectory": steps, "history": ROWS, "info": {}}))
    assert [s.basis for s in session.steps] == ["recorded", "recorded"]
    assert session.request(step=2).messages[-1]["content"][0]["text"] == "(cut)"
    assert session.projection(step=2).pieces[-1].original == "h4"


def test_the_named_processor_is_applied_where_a_file_keeps_no_input() -> None:
    rows = [{"role": "user", "content": f"{n}\nx", "message_type": "observation"} for n in range(5)]
    assert swe_agent.elided(rows, 2, "cut {}") == [None, "cut 2", "cut 2", None, None]
    assert swe_agent.elided(rows, 0, "cut {}") == [None] * 5


def test_each_attempt_of_a_retry_agent_is_a_session(tmp_path: Path) -> None:
    runs = [{"trajectory": STEPS[:n], "history": ROWS[: 2 * n + 1], "info": {}} for n in (1, 2)]
    path = write(tmp_path / "a.traj", {"attempts": runs})
    assert swe_agent.sniff(path, path.read_bytes())
    assert [i.session_id for i in swe_agent.list_sessions(path)] == ["attempt-1", "attempt-2"]
    assert (len(opened(path).steps), len(opened(path, "attempt-1").steps)) == (2, 1)
    with pytest.raises(SessionNotFound, match="no run 'x'"):
        opened(path, "x")


def test_a_file_without_history_is_read_from_its_steps(tmp_path: Path) -> None:
    session = opened(write(tmp_path / "a.traj", {"trajectory": STEPS, "info": {}}))
    assert [m["role"] for m in session.request(step=2).messages] == ["assistant", "user"]
