"""Two requests: the first block that differs, what only one holds, and the cause that the log gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.diagnosis.compare import captured, compare, resumed
from nova_nb.errors import UsageError
from nova_nb.session import Session

CASES = Path(__file__).parent / "cases"


def opened(case: str) -> Session:
    return nova.open_session(next((CASES / case).glob("*.jsonl")))


def test_neighbouring_steps_extend_each_other() -> None:
    session = opened("healthy-compaction")
    found = compare((session, 1), (session, 2))
    assert found.extends
    assert found.only_a == ()
    assert found.cause == "the second adds 2 messages at the end of the first"
    assert found.layer is None


def test_across_a_compaction_the_boundary_is_the_cause() -> None:
    session = opened("healthy-compaction")
    compaction = next(step.number for step in session.steps if step.kind == "compact")
    found = compare((session, compaction - 1), (session, compaction + 1))
    assert (found.layer, found.cause) == (
        "boundary",
        "the second lacks block 0.0 of the first: behind the compaction at line 32",
    )
    assert found.records_only_a
    assert found.first[0] is not None
    assert found.first[0].sources[0] in found.records_only_a


def test_a_session_equals_itself_and_goes_on_where_it_stopped() -> None:
    session = opened("healthy-compaction")
    assert compare(session, session).equal
    assert resumed(session).extends


def test_a_resume_of_an_old_version_passes_parallel_calls_by(tmp_path: Path) -> None:
    """The same rows, once as the newest version wrote them and once as 2.0 did."""
    rows = next((CASES / "parallel-results-out-of-order").glob("*.jsonl")).read_text("utf-8").splitlines()
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps({**json.loads(row), "version": "2.0.77"}) + "\n" for row in rows), "utf-8")
    assert resumed(opened("parallel-results-out-of-order")).extends
    found = resumed(nova.open_session(path))
    assert not found.extends
    assert found.layer == "projection"
    assert "walked by parents alone" in found.cause


def test_a_captured_body_is_compared_in_its_own_words(tmp_path: Path) -> None:
    session = opened("healthy-compaction")
    request = session.request(step=2)
    messages = [
        {**m, "content": m["content"][0]["text"]} if len(m["content"]) == 1 and m["content"][0]["type"] == "text" else m
        for m in request.messages
    ]
    bodies = tmp_path / "requests.jsonl"
    bodies.write_text(
        "".join(json.dumps({"seq": n, "body": {"messages": messages[:n]}}) + "\n" for n in (1, len(messages))), "utf-8"
    )
    assert compare((session, 2), captured(bodies, len(messages))).equal
    short = compare((session, 2), captured(bodies, 1))
    assert len(short.only_a) == sum(len(m["content"]) for m in request.messages[1:])
    with pytest.raises(UsageError, match="no request 9"):
        captured(bodies, 9)


def test_the_face_compares_a_step_with_the_file_of_a_captured_request(tmp_path: Path) -> None:
    session = opened("healthy-compaction")
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"messages": session.request(2).body["messages"]}))
    assert nova.compare((session, 2), file).equal
    assert nova.compare((session, 3), str(file)).only_a
