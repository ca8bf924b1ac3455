from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.errors import SessionNotFound
from nova_nb.foreign import letta
from nova_nb.session import Session, open_session
from tests.conftest import shared


def opened(path: Path, session_id: str | None = None) -> Session:
    return Session(letta.read(path, session_id), letta)


def say(id: str, role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "role": role, "content": [{"type": "text", "text": text}], **more}


CALL = {"id": "c", "function": {"name": "send_message", "arguments": '{"message": "Hi."}'}}
MESSAGES = [say("m0", "system", "You remember."), say("m1", "user", "Old."), say("m2", "assistant", "Yes."), say("m3", "user", "New."),
            {**say("m4", "assistant", ""), "content": [{"type": "reasoning", "reasoning": "Hm."}], "tool_calls": [CALL]},
            say("m5", "tool", "OK", tool_call_id="c", tool_returns=[{"tool_call_id": "c", "status": "error"}])]  # fmt: skip
AGENT = {"id": "agent-0", "name": "Loop", "agent_type": "letta_v1_agent", "llm_config": {"model": "m"}, "messages": MESSAGES,
         "in_context_message_ids": ["m0", "m3", "m4", "m5"]}  # fmt: skip


def write(path: Path, value: Any, twice: bool = False) -> Path:
    text = json.dumps(value)
    path.write_text(json.dumps(text) if twice else text)
    return path


@pytest.mark.parametrize("twice", [False, True])
def test_the_model_sees_what_the_context_names_and_the_rest_is_recall(tmp_path: Path, twice: bool) -> None:
    path = write(tmp_path / "a.af", {"agents": [AGENT]}, twice)
    assert letta.sniff(path, path.read_bytes())
    session = opened(path)
    request = session.request()
    assert request.system == [{"type": "text", "text": "You remember."}]
    assert [[b["type"] for b in m["content"]] for m in request.messages] == [
        ["text"],
        ["thinking", "tool_use"],
        ["tool_result"],
    ]
    assert request.messages[2]["content"][0]["is_error"] is True
    assert set(session.projection().left) == {"m1", "m2"}
    assert letta.reachable(session.log) == letta.conversation(session.log) == ["m1", "m2", "m3", "m4", "m5"]


def test_what_an_earlier_call_saw_is_partial(tmp_path: Path) -> None:
    session = opened(write(tmp_path / "a.af", {"agents": [AGENT]}))
    assert [(s.record, s.basis) for s in session.steps] == [("m2", "partial"), ("m4", "partial")]
    assert [len(session.request(step=n).messages) for n in (1, 2)] == [1, 1]
    assert len(session.request(step=1).unknown) == 2


def test_each_agent_is_a_session_and_the_first_is_the_root(tmp_path: Path) -> None:
    path = write(tmp_path / "a.af", {"agents": [AGENT, {**AGENT, "id": "agent-1", "name": "Helper", "messages": []}]})
    assert [(i.session_id, i.title) for i in letta.list_sessions(path)] == [("agent-0", "Loop"), ("agent-1", "Helper")]
    assert opened(path).log.source.session_id == "agent-0"
    with pytest.raises(SessionNotFound, match="no agent agent-9"):
        opened(path, "agent-9")


def test_the_flat_form_of_the_first_version_names_its_context_by_index(tmp_path: Path) -> None:
    old = {"agent_type": "memgpt_agent", "core_memory": [], "messages": MESSAGES, "in_context_message_indices": [0, 3]}
    path = write(tmp_path / "a.af", old)
    assert letta.sniff(path, path.read_bytes())
    assert [m["content"][0]["text"] for m in opened(path).request().messages] == ["New."]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "messages"), [("loop.af", 2), ("customer_service.af", 0)])
def test_samples_open(name: str, messages: int) -> None:
    session = open_session(shared(f"samples/letta/{name}"))
    assert session.log.source.format == "letta" and not session.log.damage
    assert len(session.request().messages) == messages and session.request().system
