from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import atoms
from tests.foreign.proof import open_all, prove


def sessions(folder: Path) -> list[Session]:
    return open_all(folder, "session/tmp/*/chats/session-*.json*")


def known(contents: list[Any]) -> list[Any]:
    """Contents without what provably stands in no file: thought signatures, and the context message of 0.24."""
    out = []
    for content in contents:
        if content["parts"][0].get("text", "").startswith("This is the Gemini CLI. We are setting up the context"):
            continue
        parts = [{k: v for k, v in part.items() if k != "thoughtSignature"} for part in content["parts"]]
        out.append({"role": content["role"], "parts": parts})
    return out


def said(rows: list[Any]) -> list[Any]:
    out: list[Any] = []
    for row in rows:
        if "parts" not in row:
            out += atoms([row])
            continue
        for part in row["parts"]:
            call, answer = part.get("functionCall"), part.get("functionResponse")
            if call:
                block = {"type": "tool_use", "id": call.get("id", ""), "name": call["name"], "input": call["args"]}
            elif answer:
                response = answer["response"]
                text = response["output"] if "output" in response else response.get("error", "")
                block = {"type": "tool_result", "tool_use_id": answer.get("id", ""), "content": text}
            else:
                block = {"type": "text", "text": part["text"]}
            out += atoms([{"role": {"model": "assistant"}.get(row["role"], row["role"]), "content": [block]}])
    return out


@pytest.mark.shared
@pytest.mark.parametrize(("agent", "exact"), [("gemini-cli-0.61.0", 42), ("gemini-cli-0.24.0", 30)])
def test_captured_requests_are_rebuilt(agent: str, exact: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = prove(agent, sessions, known, said)
    with capsys.disabled():
        print("\n" + tally.table(agent))
    assert tally.total("exact") >= exact, tally.table(agent)


def user(id: str, text: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"id": id, "type": "user", "content": [{"text": text}], "timestamp": at}


def answer(id: str, text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    tokens = {"input": 100, "cached": 90, "output": 5, "thoughts": 2, "tool": 0, "total": 107}
    return {"id": id, "type": "gemini", "content": text, "toolCalls": list(calls), "tokens": tokens, "model": "g"}


def call(id: str, output: str, at: str = "2026-01-01T00:00:01Z") -> dict[str, Any]:
    response = {"functionResponse": {"id": f"ls__{id}", "name": "ls", "response": {"output": output}}}
    return {"id": f"ls__{id}", "name": "ls", "args": {"dir": "."}, "result": [response], "timestamp": at}


def results(id: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "type": "user", "content": [part for c in calls for part in c["result"]]}


HEAD = {"sessionId": "s1", "projectHash": "h", "kind": "main"}
CONTEXT = user("ctx", "<session_context>\nhere</session_context>")


def write(path: Path, *rows: dict[str, Any]) -> Session:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_session(path)


def said_by(session: Session, step: int | None = None) -> list[Any]:
    return [atom[-1] for atom in said(session.request(step).body["contents"]) if atom[0] != "call"]


def test_rows_with_one_id_are_one_message_and_its_last_version_counts(tmp_path: Path) -> None:
    c = call("c1", "files")
    rows = [HEAD, {"$set": {"messages": [CONTEXT]}}, user("u1", "one"), answer("g1", "two"), answer("g1", "two", c)]
    session = write(tmp_path / "s.jsonl", *rows, results("u2", c), answer("g2", "three"))
    assert session.format.conversation(session.log) == ["ctx", "u1", "g1", "u2", "g2"]
    assert [s.record for s in session.steps] == ["g1", "g2"]
    assert said_by(session, 2) == [CONTEXT["content"][0]["text"], "one", "two", "files"]
    called = session.request(2).body["contents"][1]["parts"][1]
    assert called == {"functionCall": {"id": "c1", "name": "ls", "args": {"dir": "."}}}
    assert session.steps[0].usage is not None and session.steps[0].usage.context == 100
    assert session.steps[0].usage.output == 7


def test_after_a_resume_every_result_goes_out_twice_and_says_why(tmp_path: Path) -> None:
    c = call("c1", "files")
    rows = [
        HEAD,
        {"$set": {"messages": [CONTEXT]}},
        user("u1", "one"),
        answer("g1", "two", c),
        results("u2", c),
        answer("g2", "x"),
    ]
    request = write(tmp_path / "s.jsonl", *rows).request()
    twice = [p for p in request.pieces if p.block.get("type") == "tool_result"]
    assert [p.reason.startswith("sent twice") for p in twice] == [False, True]
    assert {p.sources for p in twice} == {("u2",)}


def test_a_question_that_lost_its_answer_to_a_new_process_is_a_step(tmp_path: Path) -> None:
    again = {"$set": {"messages": [CONTEXT, user("u1", "one")]}}
    rows = [HEAD, {"$set": {"messages": [CONTEXT]}}, user("u1", "one"), HEAD, again, user("u2", "two"), answer("g2", "ok")]
    session = write(tmp_path / "s.jsonl", *rows)
    assert [(s.record, said_by(session, s.number)[1:]) for s in session.steps] == [("u1", ["one"]), ("g2", ["one", "two"])]


def test_a_compression_replaces_the_list_and_the_kept_messages_keep_their_records(tmp_path: Path) -> None:
    snapshot = user("sn", "<state_snapshot>goal</state_snapshot>")
    ack = {"id": "ack", "type": "gemini", "content": [{"text": "Got it."}]}
    copy = {"id": "copy", "type": "user", "content": [{"text": "newest"}]}
    rows = [HEAD, {"$set": {"messages": [CONTEXT]}}, user("u1", "old"), answer("g1", "two"), user("u2", "newest")]
    session = write(tmp_path / "s.jsonl", *rows, {"$set": {"messages": [CONTEXT, snapshot, ack, copy]}}, answer("g2", "done"))
    assert [s.kind for s in session.steps] == ["main", "compact", "compact", "main"]
    assert said_by(session, 4)[1:] == ["<state_snapshot>goal</state_snapshot>", "Got it.", "newest"]
    pieces = session.request(4).pieces
    assert [p.state for p in pieces] == ["reminder", "summary", "whole", "whole"] and pieces[-1].sources == ("u2",)
    assert session.projection(4).left["u1"] == ("boundary", "behind the compression at line 6")


def test_a_rewind_takes_messages_out_and_leaves_them_on_disk(tmp_path: Path) -> None:
    rows = [HEAD, user("u1", "a"), answer("g1", "b"), user("u2", "c"), {"$rewindTo": "u2"}, user("u3", "d")]
    session = write(tmp_path / "s.jsonl", *rows)
    assert said_by(session) == ["a", "b", "d"]
    assert "u2" in session.format.conversation(session.log) and "u2" not in session.format.reachable(session.log)


def test_an_older_record_that_holds_the_calls_of_two_answers_is_two_steps(tmp_path: Path) -> None:
    first, second = call("c1", "one"), call("c2", "two", "2026-01-01T00:00:09Z")
    both = {"sessionId": "s", "projectHash": "h", "messages": [user("u1", "go"), answer("g1", "x", first, second)]}
    (tmp_path / "s.json").write_text(json.dumps(both))
    session = open_session(tmp_path / "s.json")
    assert [s.number for s in session.steps] == [1, 2]
    assert [content["role"] for content in session.request(2).body["contents"]] == ["user", "model", "user"]
    assert [content["role"] for content in session.request().body["contents"]] == ["user", "model", "user"]
    assert len(session.request().body["contents"][1]["parts"]) == 3
    assert session.steps[0].basis == "partial"


@pytest.mark.shared
def test_all_samples_open_and_every_step_has_a_request() -> None:
    for path in sorted(shared("samples/gemini").iterdir()):
        session = open_session(path)
        assert session.format.name == "gemini" and session.steps
        for step in session.steps:
            assert session.request(step.number).body["contents"] or step.number == 1
