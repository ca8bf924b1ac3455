"""Broken sessions of Codex, pi, Gemini CLI and opencode: nothing raises, nothing hangs, the readable rest is kept."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_nb.errors import SessionError
from nova_nb.session import open_session
from tests.foreign import test_codex, test_gemini, test_opencode, test_pi

MODEST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def codex_rows() -> list[dict[str, Any]]:
    t = test_codex
    return [
        t.meta(), t.event("task_started"), t.say("developer", "<permissions instructions>x"), t.say("user", "one", "m1"),
        t.item("reasoning", id="r1", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="e"), t.call("c1"),
        t.call("c2"), t.count(100, 100), t.output("c1", "files"), t.output("c2", "head …7 tokens truncated… tail"),
        t.say("assistant", "two", "m2"), {"type": "compacted", "payload": {"message": "", "replacement_history": [
            t.say("user", "one", "m1")["payload"], {"type": "compaction", "encrypted_content": "x"}]}},
        t.say("user", "three", "m3"), t.event("thread_rolled_back", num_turns=1), t.say("user", "four", "m4"),
        t.item("custom_tool_call", name="patch", input="*", call_id="c3"), t.item("custom_tool_call_output", call_id="c3",
        output='{"output":"ok","metadata":{"exit_code":0,"duration_seconds":0.5}}'), t.say("assistant", "five", "m5"),
    ]  # fmt: skip


def pi_rows() -> list[dict[str, Any]]:
    e, text = test_pi.entry, test_pi.text
    return [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-05-04T09:00:00Z", "cwd": "/shop"},
        {"type": "model_change", "id": "m0", "parentId": None, "timestamp": "2026-05-04T09:00:00Z", "modelId": "x"},
        e("m1", "m0", "system", content="", sections={"a": "b"}, toolsAdded=[{"name": "read", "parameters": {}}]),
        e("m2", "m1", "user", content=text("one")), e("m3", "m2", "assistant", content=[*text("two"), test_pi.call("c1")],
        usage=test_pi.USAGE, model="x", api="openai-completions"), e("m4", "m3", "toolResult", toolCallId="c1", content=text("three"),
        isError=False, details={"truncation": {"truncated": True}, "fullOutputPath": "/tmp/x"}),
        {"type": "compaction", "id": "m5", "parentId": "m4", "timestamp": "2026-05-04T09:00:05Z", "summary": "S",
         "firstKeptEntryId": "m3", "tokensBefore": 95}, e("m6", "m5", "user", content="six"),
        {"type": "branch_summary", "id": "m7", "parentId": "m6", "timestamp": "2026-05-04T09:00:07Z", "summary": "B"},
        e("m8", "m7", "bashExecution", command="ls", output="x", exitCode=1), e("m9", "m8", "assistant", content=text("end"), model="x"),
    ]  # fmt: skip


def gemini_rows() -> list[dict[str, Any]]:
    t, c = test_gemini, test_gemini.call("c1", "files")
    snapshot = t.user("sn", "<state_snapshot>goal</state_snapshot>")
    return [
        t.HEAD, {"$set": {"messages": [t.CONTEXT]}}, t.user("u1", "one"), t.answer("g1", "two"), t.answer("g1", "two", c),
        t.results("u2", c), t.answer("g2", "x"), t.HEAD, {"$set": {"messages": [t.CONTEXT, t.user("u1", "one")]}},
        {"$set": {"messages": [t.CONTEXT, snapshot, t.answer("k", "Got it."), t.user("u1", "one")]}}, t.user("u3", "three"),
        {"id": "i1", "type": "info", "content": "note"}, {"$rewindTo": "u3"}, t.user("u4", "four"), t.answer("g4", "end"),
    ]  # fmt: skip


def opencode_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"type": "session.created", "properties": {"info": test_opencode.SESSION}}]
    for head, parts in test_opencode.CHAT:
        rows.append({"type": "message.updated", "properties": {"info": head}})
        rows += [{"type": "message.part.updated", "properties": {"part": {**p, "messageID": head["id"]}}} for p in parts]
    return rows


ROWS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "codex": codex_rows,
    "pi": pi_rows,
    "gemini": gemini_rows,
    "opencode": opencode_rows,
}


def use(path: Path) -> int:
    """Everything a session is asked for; how many conversation records it has."""
    session = open_session(path)
    log, format = session.log, session.format
    ids = [event.id for event in log.events]
    assert len(ids) == len(set(ids)) == len(log.lines)
    conversation = format.conversation(log)
    assert set(conversation) <= set(ids) and len(conversation) == len(set(conversation))
    reachable = format.reachable(log)
    assert len(reachable) == len(set(reachable))
    format.shown(log)
    assert session.leaf.policy
    for step in [None, *(s.number for s in session.steps)]:
        request = session.request(step)
        assert isinstance(request.body, dict) and request.canonical
        assert all(piece.sources or piece.state in ("reminder", "whole") for piece in request.pieces)
    return len(conversation)


def mutated(draw: Callable[[Any], Any], rows: list[dict[str, Any]]) -> bytes:
    """A file of rows with one or two things wrong with it."""
    data = lines(rows).split(b"\n")[:-1]
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(data) - 1))
        other = draw(st.integers(0, len(data) - 1))
        how = draw(st.sampled_from(["cut", "swap", "double", "splice", "nul", "drop", "deep", "bytes", "value", "end"]))
        if how == "cut":
            data[at] = data[at][: draw(st.integers(0, len(data[at])))]
        elif how == "swap":
            data[at], data[other] = data[other], data[at]
        elif how == "double":
            data.insert(other, data[at])
        elif how == "splice":
            middle = len(data[at]) // 2
            data[at] = data[at][:middle] + data[other] + data[at][middle:]
        elif how == "nul":
            data[at] = b"\0" * 40 + data[at]
        elif how == "drop":
            del data[at]
            data = data or [b""]
        elif how == "deep":
            data[at] = b'{"type":"message","id":' + b"[" * 3000 + b"]" * 3000 + b"}"
        elif how == "bytes":
            data[at] = data[at].replace(b'"', bytes([draw(st.integers(0, 255))]), 1)
        elif how == "value":
            data[at] = json.dumps(replaced(draw, json.loads(lines(rows).split(b"\n")[min(at, len(rows) - 1)]))).encode()
        else:
            return b"\n".join(data)[: -draw(st.integers(1, 30))]
    return b"\n".join(data) + b"\n"


def replaced(draw: Callable[[Any], Any], value: Any) -> Any:
    """A JSON value with one part of it replaced by something of another kind."""
    odd = st.sampled_from([None, True, -1, 1e300, "", "x", "\ud800", [], {}, [[]], [None], {"a": None}, "../../x"])
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        return [replaced(draw, v) if i == at else v for i, v in enumerate(value)]
    return draw(odd)


@pytest.mark.parametrize("agent", sorted(ROWS))
@MODEST
@given(data=st.data())
def test_a_broken_session_never_raises_more_than_that_it_is_none(agent: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(mutated(data.draw, ROWS[agent]()))
        try:
            use(path)
        except SessionError:
            return


@pytest.mark.parametrize("agent", sorted(ROWS))
def test_a_torn_last_line_and_a_nul_run_cost_only_themselves(agent: str, tmp_path: Path) -> None:
    rows = ROWS[agent]()
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(lines(rows))
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(lines(rows[:4]) + b"\0" * 64 + b"\n" + lines(rows[4:]) + b'{"type":"mess')
    assert use(broken) == use(whole)
    assert len(open_session(broken).log.damage) == 2 and not open_session(whole).log.damage


@MODEST
@given(data=st.data())
def test_an_opencode_database_with_odd_values_is_read(data: st.DataObject) -> None:
    chat = [(replaced(data.draw, head), [replaced(data.draw, part) for part in parts]) for head, parts in test_opencode.CHAT]
    with tempfile.TemporaryDirectory() as folder:
        path = test_opencode.make_database(Path(folder) / "opencode.db", test_opencode.CHAT)
        db = sqlite3.connect(path)
        for (old, parts), (head, odd) in zip(test_opencode.CHAT, chat, strict=True):
            db.execute("UPDATE message SET data = ? WHERE id = ?", (json.dumps(head), old["id"]))
            for part, value in zip(parts, odd, strict=True):
                db.execute("UPDATE part SET data = ? WHERE id = ?", (json.dumps(value), part["id"]))
        db.commit()
        db.close()
        use(path)
        damaged = path.read_bytes()
        at = data.draw(st.integers(100, len(damaged) - 1))
        path.write_bytes(damaged[:at] + b"\xff" * 64 + damaged[at + 64 :])
        try:
            use(path)
        except SessionError:
            return


@MODEST
@given(data=st.data())
def test_whole_file_sessions_with_odd_values_are_read(data: st.DataObject) -> None:
    t = test_gemini
    export = {"info": test_opencode.SESSION, "messages": [{"info": i, "parts": p} for i, p in test_opencode.CHAT]}
    calls = [t.call("c1", "one"), t.call("c2", "two", "2026-01-01T00:00:09Z")]
    old = {"sessionId": "s", "projectHash": "h", "messages": [t.user("u1", "go"), t.answer("g1", "x", *calls)]}
    value = replaced(data.draw, data.draw(st.sampled_from([export, old])))
    text = json.dumps(value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.json"
        path.write_text(text[: data.draw(st.sampled_from([None, len(text) // 2, -3]))])
        try:
            use(path)
        except SessionError:
            return
