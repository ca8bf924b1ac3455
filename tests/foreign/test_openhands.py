from __future__ import annotations

import json
from pathlib import Path

import pytest

from nova_nb.foreign import openhands
from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import Tally, capture, check, scenarios


def opened(path: Path) -> Session:
    return Session(openhands.read(path), openhands)


@pytest.mark.shared
def test_every_captured_request_is_rebuilt_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for folder in scenarios("openhands-sdk-1.58.2"):
        check(tally, opened(folder / "session"), capture(folder), folder.name)
    with capsys.disabled():
        print(tally.table("\nopenhands-sdk 1.58.2"))
    assert tally.total("exact") >= 47 and not tally.wrong, tally.table("openhands")


def event(id: str, kind: str, parent: str | None, **fields: object) -> dict[str, object]:
    return {"id": id, "kind": kind, "source": "agent", **({"parent_id": parent} if parent else {}), **fields}


def user(id: str, parent: str, text: str) -> dict[str, object]:
    said = {"role": "user", "content": [{"type": "text", "text": text, "cache_prompt": False}]}
    return {**event(id, "MessageEvent", parent, llm_message=said), "source": "user"}


def call(id: str, parent: str, answer: str, thought: str = "") -> dict[str, object]:
    parts = [{"type": "text", "text": thought}] if thought else []
    use = {"id": f"call-{id}", "name": "ls", "arguments": "{}"}
    return event(
        id,
        "ActionEvent",
        parent,
        thought=parts,
        tool_call=use,
        tool_call_id=f"call-{id}",
        tool_name="ls",
        llm_response_id=answer,
    )


def result(id: str, parent: str, action: str, text: str) -> dict[str, object]:
    seen = {"content": [{"type": "text", "text": text}], "is_error": False}
    return event(
        id, "ObservationEvent", parent, observation=seen, tool_call_id=f"call-{action}", tool_name="ls", action_id=action
    )


ROOT = event("s", "SystemPromptEvent", None, system_prompt={"type": "text", "text": "You help."}, tools=[])
TALK = [ROOT, user("u", "s", "Fix."), call("a1", "u", "r1", "Two."), call("a2", "a1", "r1"), result("o1", "a2", "a1", "one"),
        result("o2", "o1", "a2", "two")]  # fmt: skip


def conversation(folder: Path, events: list[dict[str, object]], leaf: str | None = None) -> Path:
    (folder / "events").mkdir(parents=True)
    for i, value in enumerate(events):
        (folder / "events" / f"event-{i:05}-{value['id']}.json").write_text(json.dumps(value))
    state = {"id": "conv-1", "agent": {"llm": {"model": "fake"}}, **({"leaf_event_id": leaf} if leaf else {})}
    (folder / "base_state.json").write_text(json.dumps(state))
    return folder


def test_calls_of_one_answer_are_one_message_and_results_one_batch(tmp_path: Path) -> None:
    session = opened(conversation(tmp_path / "c", TALK))
    request = session.request()
    assert [m["role"] for m in request.messages] == ["user", "assistant", "user"]
    assert [b["type"] for b in request.messages[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [b["tool_use_id"] for b in request.messages[2]["content"]] == ["call-a1", "call-a2"]
    assert [m["role"] for m in request.body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert [s.record for s in session.steps] == ["a1"]


def test_a_call_killed_before_its_result_takes_its_whole_answer_along(tmp_path: Path) -> None:
    session = opened(conversation(tmp_path / "c", [*TALK[:5], user("u2", "o1", "And?")]))
    projection = session.projection()
    assert [m["role"] for m in session.request().messages] == ["user"]
    assert len(session.request().messages[0]["content"]) == 2
    assert {id: layer for id, (layer, _) in projection.left.items()} == {"a1": "pairing", "a2": "pairing", "o1": "pairing"}


def test_the_leaf_is_the_one_of_the_base_state_and_the_last_row_is_named_beside_it(tmp_path: Path) -> None:
    other = user("u2", "u", "Or this.")
    session = opened(conversation(tmp_path / "c", [*TALK, other], leaf="o2"))
    assert (session.leaf.record, session.leaf.policy) == ("o2", "base-state-leaf")
    assert [a.record for a in session.leaf.alternatives] == ["u2"]
    assert "u2" not in openhands.reachable(session.log) and "u2" in openhands.conversation(session.log)
    assert openhands.reachable(session.log, "u2") == ["u", "u2"]


def test_a_condensation_forgets_and_puts_its_summary_at_its_offset(tmp_path: Path) -> None:
    fold = event("k", "Condensation", "o2", forgotten_event_ids=["a1", "a2", "o1", "o2"], summary="Did two.", summary_offset=2,
                 llm_response_id="r2")  # fmt: skip
    again = event(
        "k2",
        "Condensation",
        "u2",
        forgotten_event_ids=["k-summary"],
        summary="Did more.",
        summary_offset=2,
        llm_response_id="r3",
    )
    events = [*TALK, fold, user("u2", "k", "Next.")]
    session = opened(conversation(tmp_path / "c", events))
    assert [b["text"] for b in session.request().messages[0]["content"]] == ["Fix.", "Did two.", "Next."]
    assert [p.state for p in session.projection().pieces] == ["whole", "summary", "whole"]
    assert session.projection().left["o1"] == ("boundary", "forgotten by the condensation in line 7")
    assert [(s.kind, s.basis) for s in session.steps] == [("main", "rebuilt"), ("compact", "partial")]
    session = opened(conversation(tmp_path / "d", [*events, again]))
    assert [b["text"] for b in session.request().messages[0]["content"]] == ["Fix.", "Did more.", "Next."]


def test_events_without_parents_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    flat = [{k: v for k, v in value.items() if k != "parent_id"} for value in TALK]
    path.write_text("\n".join(json.dumps(v) for v in flat) + '\n{"kind": "MessageEv')
    assert openhands.sniff(path, path.read_bytes())
    session = opened(path)
    assert len(session.request().messages) == 3
    assert [d.kind for d in session.log.damage] == ["torn"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "messages"), [("v0-harbor-rfc-openhands_trajectory.json", 4), ("v0-multi-swe-bench-output.jsonl", 30),
                           ("v1-base_state.json", 0), ("v1-sdk-goal-events.jsonl", 4)],
)  # fmt: skip
def test_samples_open(name: str, messages: int) -> None:
    path = shared(f"samples/openhands/{name}")
    session = open_session(path)
    assert session.log.source.format == "openhands" and not session.log.damage
    assert len(session.request().messages) >= messages
    for step in session.steps:
        assert session.request(step=step.number).basis in ("rebuilt", "partial")


@pytest.mark.shared
def test_an_evaluation_output_lists_its_instances() -> None:
    path = shared("samples/openhands/v0-multi-swe-bench-output.jsonl")
    found = openhands.list_sessions(path)
    assert len(found) == 3 and all(i.session_id for i in found)
    assert openhands.read(path, found[0].session_id).source.session_id == found[0].session_id
