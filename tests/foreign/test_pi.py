from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import atoms, without_system
from tests.foreign.proof import open_all, prove


def sessions(folder: Path) -> list[Session]:
    return open_all(folder, "session/sessions/*/*.jsonl")


def as_sent(rows: list[Any]) -> list[Any]:
    return rows


def said(rows: list[Any]) -> list[Any]:
    """The conversation: OpenAI Chat has the system prompt among the messages."""
    return atoms(without_system(rows))


@pytest.mark.shared
@pytest.mark.parametrize(("agent", "exact"), [("pi-1.6.0", 66), ("pi-0.73.1", 46)])
def test_every_captured_request_is_rebuilt_exactly(agent: str, exact: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = prove(agent, sessions, as_sent, said)
    with capsys.disabled():
        print("\n" + tally.table(agent))
    assert tally.total("exact") >= exact, tally.table(agent)


def entry(id: str, parent: str | None, role: str, **message: Any) -> dict[str, Any]:
    at = f"2026-05-04T09:00:{int(id[1:]):02}.000Z"
    return {"type": "message", "id": id, "parentId": parent, "timestamp": at, "message": {"role": role, **message}}


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


def call(id: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": "read", "arguments": {"path": f"{id}.py"}}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    header = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-05-04T09:00:00.000Z", "cwd": "/shop"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [header, *rows]))
    return path


USAGE = {"input": 10, "output": 5, "cacheRead": 90, "cacheWrite": 0}


def said_by(session: Session, step: int | None = None) -> list[str]:
    return ["".join(str(b.get("text", b.get("content"))) for b in m["content"]) for m in session.request(step).messages]


def test_a_compaction_keeps_the_entries_from_the_first_kept_one_even_inside_a_turn(tmp_path: Path) -> None:
    rows = [
        entry("m1", None, "user", content=text("one")),
        entry("m2", "m1", "assistant", content=[*text("two"), call("c1")], usage=USAGE, model="x"),
        entry("m3", "m2", "toolResult", toolCallId="c1", content=text("three"), isError=False),
        entry("m4", "m3", "assistant", content=text("four"), usage=USAGE, model="x"),
        {"type": "compaction", "id": "m5", "parentId": "m4", "timestamp": "2026-05-04T09:00:05.000Z", "summary": "S",
         "firstKeptEntryId": "m4", "tokensBefore": 95},
        entry("m6", "m5", "user", content="six"),
        entry("m7", "m6", "assistant", content=text("seven"), model="x"),
    ]  # fmt: skip
    session = open_session(write(tmp_path / "s.jsonl", rows))
    assert [(s.kind, s.record) for s in session.steps] == [("main", "m2"), ("main", "m4"), ("compact", "m5"), ("main", "m7")]
    assert said_by(session, 2)[-1].endswith("three")
    summary, *rest = session.request(4).pieces
    assert summary.state == "summary" and "<summary>\nS\n</summary>" in summary.block["text"]
    assert [p.block["text"] for p in rest] == ["four", "six"]
    assert session.projection(4).left["m1"] == ("boundary", "behind the compaction at line 6")
    assert session.steps[0].usage is not None and session.steps[0].usage.context == 100
    assert session.format.reachable(session.log) == ["m1", "m2", "m3", "m4", "m6", "m7"]


def test_calls_that_lost_their_results_get_one_on_the_wire_and_the_next_question_follows(tmp_path: Path) -> None:
    rows = [
        entry("m1", None, "user", content=text("go")),
        entry("m2", "m1", "assistant", content=[call("c1"), call("c2")]),
        entry("m9", "m2", "user", content=text("what happened?")),
    ]
    request = open_session(write(tmp_path / "s.jsonl", rows)).request()
    made = [p for p in request.pieces if p.state == "repair"]
    assert [p.block["tool_use_id"] for p in made] == ["c1", "c2"]
    assert [m["role"] for m in request.messages] == ["user", "assistant", "user", "user"]
    assert request.body["messages"][2]["content"][0]["is_error"] is True


def test_a_question_whose_answer_was_lost_is_a_step_and_one_typed_meanwhile_is_not(tmp_path: Path) -> None:
    lost = [entry("m1", None, "user", content=text("a")), entry("m9", "m1", "user", content=text("b")),
            entry("m10", "m9", "assistant", content=text("c"))]  # fmt: skip
    session = open_session(write(tmp_path / "lost.jsonl", lost))
    assert [(s.record, said_by(session, s.number)) for s in session.steps] == [("m1", ["a"]), ("m10", ["a", "b"])]
    queued = [entry("m1", None, "user", content=text("a")), {**entry("m2", "m1", "user", content=text("b")),
              "timestamp": "2026-05-04T09:00:01.010Z"}, entry("m3", "m2", "assistant", content=text("c"))]  # fmt: skip
    assert len(open_session(write(tmp_path / "queued.jsonl", queued)).steps) == 1


def test_answers_that_ended_in_an_error_stay_out_of_later_requests_with_their_reason(tmp_path: Path) -> None:
    rows = [
        entry("m1", None, "user", content=text("a")),
        entry("m2", "m1", "assistant", content=[], stopReason="error", errorMessage="400"),
        entry("m3", "m2", "user", content=text("again")),
    ]
    session = open_session(write(tmp_path / "s.jsonl", rows))
    assert said_by(session) == ["a", "again"]
    assert session.projection().left["m2"][0] == "projection"


def test_a_second_root_hides_the_first_and_the_longer_branch_is_the_alternative(tmp_path: Path) -> None:
    rows = [entry("m1", None, "user", content=text("a")), entry("m2", "m1", "assistant", content=text("b")),
            entry("m3", None, "assistant", content=text("c"))]  # fmt: skip
    session = open_session(write(tmp_path / "s.jsonl", rows))
    assert session.leaf.record == "m3" and session.leaf.alternatives[0].record == "m2"
    assert session.format.reachable(session.log) == ["m3"]


def test_the_first_version_is_a_list_without_ids(tmp_path: Path) -> None:
    bare = [entry("m1", None, "user", content="a"), entry("m2", None, "assistant", content=text("b"))]
    rows = [{k: v for k, v in row.items() if k not in ("id", "parentId")} for row in bare]
    session = open_session(write(tmp_path / "s.jsonl", rows))
    assert said_by(session) == ["a", "b"] and session.leaf.record == "L3"


@pytest.mark.shared
def test_the_large_sample_opens_and_a_case_shows_its_two_roots() -> None:
    session = open_session(shared("samples/pi/large-session-v1.jsonl"))
    assert len(session.steps) == 453 and len(session.format.conversation(session.log)) == 914
    case = next(shared("cases/f05-injected-null-parent").glob("*Z_*.jsonl"))
    session = open_session(case)
    assert len(session.format.conversation(session.log)) == 31 and len(session.format.reachable(session.log)) == 3
