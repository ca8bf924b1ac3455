from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.foreign import request_body
from nova_nb.session import Session, open_session
from tests.conftest import SHARED, shared
from tests.foreign.captured import atoms, capture, wire, without_system


def opened(path: Path) -> Session:
    return Session(request_body.read(path), request_body)


def write(path: Path, *values: Any) -> Path:
    path.write_text("\n".join(json.dumps(v) for v in values))
    return path


CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
ANTHROPIC = {
    "model": "m", "max_tokens": 10, "system": "You help.", "tools": [{"name": "ls"}],
    "messages": [{"role": "user", "content": "Fix."}, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls",
                 "input": {"path": "."}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]}],
}  # fmt: skip
CHAT = {
    "model": "m", "tools": [{"type": "function"}],
    "messages": [{"role": "developer", "content": "You help."}, {"role": "user", "content": "Fix."},
                 {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "a.py"}],
}  # fmt: skip
RESPONSES = {
    "model": "m", "instructions": "You help.", "tools": [{"type": "function"}],
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Fix."}]},
              {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path": "."}'},
              {"type": "function_call_output", "call_id": "c1", "output": "a.py"}],
}  # fmt: skip
GEMINI = {
    "systemInstruction": {"parts": [{"text": "You help."}]}, "tools": [{}],
    "contents": [{"role": "user", "parts": [{"text": "Fix."}]},
                 {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}}}]},
                 {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.py"}}}]}],
}  # fmt: skip


@pytest.mark.parametrize("body", [ANTHROPIC, CHAT, RESPONSES, GEMINI], ids=["anthropic", "chat", "responses", "gemini"])
def test_the_same_conversation_is_the_same_in_every_providers_words(body: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "body.json", body)
    assert request_body.sniff(path, path.read_bytes())
    session = opened(path)
    request = session.request(step=1)
    assert request.body == body and request.basis == "recorded" and request.unknown == ()
    assert request.system == [{"type": "text", "text": "You help."}] and len(request.tools or []) == 1
    assert request.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Fix."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
    ]


def test_a_result_without_content_is_an_empty_one_and_a_broken_block_is_kept_as_unknown(tmp_path: Path) -> None:
    parts = [{"type": "tool_result", "tool_use_id": "c1"}, {"type": "text", "text": 3}]
    body = {**ANTHROPIC, "messages": [*ANTHROPIC["messages"][:2], {"role": "user", "content": parts}]}
    content = opened(write(tmp_path / "b.json", body)).request(step=1).messages[-1]["content"]
    assert content[0] == {"type": "tool_result", "tool_use_id": "c1", "content": ""}
    assert content[1] == {"type": "unknown", "value": {"type": "text", "text": 3}}


def test_a_capture_has_a_step_a_line_and_each_message_once(tmp_path: Path) -> None:
    first = {**CHAT, "messages": CHAT["messages"][:2]}
    path = write(
        tmp_path / "r.jsonl", {"event": {"process": 1}}, {"kind": "main", "body": first}, {"kind": "sub", "body": CHAT}
    )
    session = opened(path)
    assert [(s.number, s.kind, s.line, s.basis) for s in session.steps] == [
        (1, "main", 2, "recorded"),
        (2, "subagent", 3, "recorded"),
    ]
    assert len(request_body.conversation(session.log)) == 3
    assert session.request(step=1).diff(session.request(step=2)).extends


def test_a_body_with_its_answer_shows_what_comes_next(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    response = {"model": "m-1", "choices": [{"message": {"role": "assistant", "content": "Done."}}], "usage": usage}
    session = opened(write(tmp_path / "log.json", {**CHAT, "response": response}))
    assert session.request().messages[-1]["content"][0]["text"] == "Done."
    assert session.steps[0].model == "m-1" and session.steps[0].usage is not None and session.steps[0].usage.input == 9


def test_what_a_capture_left_out_is_none_and_what_the_provider_holds_is_named(tmp_path: Path) -> None:
    body = {
        **RESPONSES,
        "instructions": {"left_out": 38, "sha256": "d4"},
        "tools": {"left_out": 1},
        "previous_response_id": "resp_1",
    }
    request = opened(write(tmp_path / "r.json", body)).request(step=1)
    assert request.system is None and request.tools is None and request.body == body
    assert len(request.unknown) == 1 and request.basis == "partial"


def test_a_listing_that_runs_backwards_is_turned_round(tmp_path: Path) -> None:
    items = RESPONSES["input"]
    assert isinstance(items, list)
    session = opened(write(tmp_path / "items.json", {"object": "list", "data": items[::-1]}))
    assert session.request(step=1).body["input"] == items


def test_a_bare_list_of_messages_has_a_call_before_each_answer(tmp_path: Path) -> None:
    rows = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "a"}]
    session = opened(write(tmp_path / "list.json", rows))
    assert [(s.basis, len(session.request(step=s.number).messages)) for s in session.steps] == [("rebuilt", 1)]
    assert len(session.request().messages) == 3


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", {"body": CHAT}, {"body": CHAT})
    path.write_bytes(path.read_bytes()[:-40])
    session = opened(path)
    assert len(session.steps) == 1 and session.log.damage[0].line == 2


@pytest.mark.shared
@pytest.mark.parametrize("agent", sorted(p.name for p in (SHARED / "authentic").glob("*-*")) if SHARED.exists() else [])
def test_every_capture_opens_and_gives_its_own_bodies_back(agent: str) -> None:
    folder = sorted((SHARED / "authentic" / agent).glob("S*"))[0]
    session, rows = open_session(folder / "requests.jsonl"), capture(folder)
    assert session.log.source.format == "request-body" and not session.log.damage
    assert [s.kind for s in session.steps] == [r["kind"] for r in rows]
    for step, row in zip(session.steps, rows, strict=True):
        request = session.request(step=step.number)
        assert wire(request.body) == wire(row["body"]) and request.basis == "recorded"
        if "contents" not in row["body"]:
            assert atoms(without_system(request.messages)) == atoms(without_system(wire(row["body"])))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "messages"),
    [("openai-chat/nilenso-stored-completion-gpt5.json", 27), ("openai-chat/openhands-litellm-claude-request.json", 1),
     ("openai-responses/nilenso-input-items.json", 5)],
)  # fmt: skip
def test_samples_open(name: str, messages: int) -> None:
    session = open_session(shared(f"samples/{name}"))
    assert session.log.source.format == "request-body" and not session.log.damage
    request = session.request(step=1)
    assert len(request.messages) >= messages and request.basis == "recorded"
