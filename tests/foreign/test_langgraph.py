from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nova_nb.foreign import langgraph
from nova_nb.foreign.langgraph_serde import decode
from nova_nb.session import Session
from tests.foreign.captured import Tally, capture, check, scenarios


def opened(path: Path, session_id: str | None = None) -> Session:
    return Session(langgraph.read(path, session_id), langgraph)


@pytest.mark.shared
def test_every_captured_request_is_rebuilt_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for folder in scenarios("langgraph-1.2.24"):
        session, rows = opened(folder / "session" / "checkpoints.sqlite"), capture(folder)
        assert [s.kind for s in session.steps] == [r["kind"] for r in rows]
        check(tally, session, rows, folder.name)
    with capsys.disabled():
        print(tally.table("\nlanggraph 1.2.24 (messages; the system prompt is in no checkpoint)"))
    assert tally.total("exact") >= 37 and not tally.wrong, tally.table("langgraph")


CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage", "remove": "RemoveMessage"}


def packed(message: dict[str, Any]) -> msgspec.msgpack.Ext:
    value = ["langchain_core.messages", CLASSES[message["type"]], message, "model_validate_json"]
    return msgspec.msgpack.Ext(5, msgspec.msgpack.encode(value))


def human(id: str, text: str) -> dict[str, Any]:
    return {"type": "human", "id": id, "content": text}


def ai(id: str, text: str, *calls: str) -> dict[str, Any]:
    uses = [{"name": "ls", "args": {"path": c}, "id": c, "type": "tool_call"} for c in calls]
    usage = {"input_tokens": 100, "output_tokens": 5, "input_token_details": {"cache_read": 60}}
    metadata = {"model_name": "fake"}
    return {"type": "ai", "id": id, "content": text, "tool_calls": uses, "usage_metadata": usage, "response_metadata": metadata}


def tool(id: str, call: str, text: str) -> dict[str, Any]:
    return {"type": "tool", "id": id, "content": text, "tool_call_id": call}


def store(path: Path, states: list[dict[str, Any]], kind: str = "msgpack") -> Path:
    """A made-up store; a state has id, parent, messages, and optionally thread, source, texts."""
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);"
        "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value);"
    )
    for state in states:
        values = {"messages": [packed(m) for m in state["messages"]], **state.get("texts", {})}
        value = {"v": 4, "id": state["id"], "channel_values": values, "channel_versions": dict.fromkeys(values, state["id"])}
        metadata = json.dumps({"source": state.get("source", "loop"), "step": 1})
        row = (state.get("thread", "t"), "", state["id"], state["parent"], kind, msgspec.msgpack.encode(value), metadata)
        db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    db.commit()
    db.close()
    return path


ASK, CALLS, DONE = human("h1", "Fix."), ai("a1", "", "c1", "c2"), ai("a2", "Done.")
RESULTS = [tool("t1", "c1", "one"), tool("t2", "c2", "two")]
RUN = [
    {"id": "1", "parent": None, "messages": [ASK], "source": "input"},
    {"id": "2", "parent": "1", "messages": [ASK, CALLS]},
    {"id": "3", "parent": "2", "messages": [ASK, CALLS, *RESULTS]},
    {"id": "4", "parent": "3", "messages": [ASK, CALLS, *RESULTS, DONE]},
]


def test_a_node_saw_the_list_of_the_checkpoint_it_started_from(tmp_path: Path) -> None:
    session = opened(store(tmp_path / "c.sqlite", RUN))
    assert [(s.record, len(session.request(step=s.number).body["messages"])) for s in session.steps] == [("a1", 1), ("a2", 4)]
    messages = session.request(step=2).messages
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert [b["content"] for b in messages[2]["content"]] == ["one", "two"]
    usage = session.steps[0].usage
    assert usage is not None and (usage.input, usage.cache_read, usage.context) == (40, 60, 100)


def test_messages_removed_while_a_text_changed_are_a_compaction(tmp_path: Path) -> None:
    fold = {"id": "5", "parent": "4", "messages": [DONE], "texts": {"summary": "Did two things."}}
    session = opened(store(tmp_path / "c.sqlite", [*RUN, fold]))
    assert [s.kind for s in session.steps] == ["main", "main", "compact"]
    assert "inferred" in session.request(step=3).unknown[0]
    boundary = session.log.get("removed-5")
    assert boundary is not None and boundary.kept == ["a2"] and boundary.content[0]["text"] == "Did two things."
    assert set(session.projection().left) == {"h1", "a1", "t1", "t2"}
    assert langgraph.reachable(session.log) == ["h1", "a1", "t1", "t2", "a2"]


def test_time_travel_is_a_second_child_and_the_newest_checkpoint_goes_on(tmp_path: Path) -> None:
    other = human("h2", "Rather this.")
    session = opened(
        store(tmp_path / "c.sqlite", [*RUN, {"id": "5", "parent": "1", "messages": [ASK, other], "source": "update"}])
    )
    assert langgraph.reachable(session.log) == ["h1", "h2"]
    assert [(a.record, a.policy) for a in session.leaf.alternatives] == [("a2", "older-branch")]
    assert langgraph.reachable(session.log, "a2") == ["h1", "a1", "t1", "t2", "a2"]


def test_update_state_replaces_a_message_and_is_no_call(tmp_path: Path) -> None:
    better = {**DONE, "content": "Really done."}
    state = {"id": "5", "parent": "4", "messages": [ASK, CALLS, *RESULTS, better], "source": "update"}
    session = opened(store(tmp_path / "c.sqlite", [*RUN, state]))
    assert len(session.steps) == 2
    assert session.request().messages[-1]["content"][0]["text"] == "Really done."
    assert [e.id for e in session.log.events if e.id.startswith("a2")] == ["a2", "a2#L5"]


def test_each_thread_is_a_session_and_the_one_used_last_is_opened(tmp_path: Path) -> None:
    path = store(tmp_path / "c.sqlite", [*RUN, {"id": "9", "parent": None, "messages": [ASK], "thread": "u"}])
    assert [i.session_id for i in langgraph.list_sessions(path)] == ["t", "u"]
    assert opened(path).log.source.session_id == "u"
    assert len(opened(path, "t").steps) == 2


def test_a_pickle_is_never_loaded_and_costs_only_its_checkpoint(tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (exec, ("raise SystemExit('loaded')",))

    path = store(tmp_path / "c.sqlite", RUN)
    db = sqlite3.connect(path)
    db.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ? WHERE checkpoint_id = '2'", (pickle.dumps(Trap()),))
    db.commit()
    db.close()
    session = opened(path)
    assert session.log.damage[0].message == "checkpoint 2 (row 2) cannot be read: a pickle is never loaded"
    assert len(session.request().messages) == 4


def test_extension_codes_give_their_arguments_and_import_nothing() -> None:
    def ext(code: int, value: Any) -> bytes:
        return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value)))

    assert decode("msgpack", ext(0, ["no.such.module", "UUID", "0ab"])) == ("0ab", "")
    assert decode("msgpack", ext(1, ["no.such.module", "Path", ["a"]])) == ("a", "")
    assert decode("msgpack", ext(2, ["no.such.module", "Point", {"x": 1}])) == ({"x": 1}, "")
    assert decode("msgpack", ext(3, ["no.such.module", "datetime", "2026-01-01", "fromisoformat"])) == ("2026-01-01", "")
    assert decode("msgpack", ext(5, ["no.such.module", "HumanMessage", {"content": "hi"}, "m"]))[0]["type"] == "human"
    assert decode("msgpack", b"\xc1")[0] is None


def test_nesting_without_end_is_refused_not_followed() -> None:
    value = b"\x90"
    for _ in range(5000):
        value = b"\x91" + value
    assert decode("msgpack", value)[0] is None
