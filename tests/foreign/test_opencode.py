from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from nova_nb.foreign import opencode
from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import atoms, without_system
from tests.foreign.proof import prove


def sessions(folder: Path) -> list[Session]:
    store = folder / "session"
    infos = opencode.list_sessions(store)
    return [Session(opencode.read(store, info.session_id), opencode) for info in sorted(infos, key=lambda i: i.modified)]


def said(rows: list[Any]) -> list[Any]:
    return [atom for atom in atoms(without_system(rows)) if atom != ("assistant", "")]


@pytest.mark.shared
@pytest.mark.parametrize(("agent", "exact"), [("opencode-1.18.33", 76), ("opencode-1.0.0", 33)])
def test_every_captured_request_is_rebuilt_exactly(agent: str, exact: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = prove(agent, sessions, without_system, said)
    with capsys.disabled():
        print("\n" + tally.table(agent))
    assert tally.total("exact") >= exact, tally.table(agent)


def info(id: str, role: str, at: int, **more: Any) -> dict[str, Any]:
    return {"id": id, "sessionID": "ses_1", "role": role, "time": {"created": at}, **more}


def words(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "text", "text": text, **more}


def tool(id: str, call: str, **state: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": "bash", "callID": call, "state": {"input": {"command": "ls"}, **state}}


TOKENS = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 90, "write": 0}}
CHAT: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (info("msg_1", "user", 1000), [words("p1", "one")]),
    (info("msg_2", "assistant", 1100, tokens=TOKENS, modelID="m", providerID="x", finish="tool-calls"),
     [words("p2", "two"), tool("p3", "c1", status="completed", output="three", time={"compacted": 1500}),
      tool("p4", "c2", status="running")]),
    (info("msg_3", "user", 1200), [words("p5", "four"), words("p6", "not for the model", ignored=True)]),
    (info("msg_4", "assistant", 1300, tokens=TOKENS, modelID="m", providerID="x"), [words("p7", "five")]),
    (info("msg_5", "user", 1600), [words("p8", "six")]),
    (info("msg_6", "assistant", 1700, modelID="m", providerID="x"), [words("p9", "seven")]),
]  # fmt: skip
SESSION = {"id": "ses_1", "version": "1.18.33", "title": "t", "time": {"created": 900, "updated": 2000}}


def make_database(path: Path, chat: list[tuple[dict[str, Any], list[dict[str, Any]]]], revert: str | None = None) -> Path:
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE session (id, parent_id, directory, title, version, revert, time_created INTEGER, time_updated INTEGER)"
    )
    db.execute("CREATE TABLE message (id, session_id, time_created INTEGER, data)")
    db.execute("CREATE TABLE part (id, message_id, session_id, data)")
    mark = json.dumps({"messageID": revert}) if revert else None
    db.execute("INSERT INTO session VALUES ('ses_1', NULL, '/shop', 't', '1.18.33', ?, 900, 2000)", (mark,))
    for head, parts in chat:
        db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (head["id"], head["time"]["created"], json.dumps(head)))
        for part in parts:
            db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (part["id"], head["id"], json.dumps(part)))
    db.commit()
    db.close()
    return path


def said_by(session: Session, step: int | None = None) -> list[Any]:
    return [atom[-1] for atom in atoms(session.request(step).messages) if atom[0] != "call"]


def test_a_result_is_whole_until_it_was_pruned_and_then_a_placeholder_that_names_it(tmp_path: Path) -> None:
    session = open_session(make_database(tmp_path / "opencode.db", CHAT))
    assert said_by(session, 2) == ["one", "two", "three", "[Tool execution was interrupted]", "four"]
    assert said_by(session, 3)[2] == "[Old tool result content cleared]"
    piece = next(p for p in session.request(3).pieces if p.state == "placeholder")
    assert piece.original == "p3" and session.log.get("p3") is not None
    assert session.steps[0].usage is not None and session.steps[0].usage.context == 100


def test_database_export_folder_and_event_stream_tell_the_same(tmp_path: Path) -> None:
    one = open_session(make_database(tmp_path / "opencode.db", CHAT)).request().messages
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"info": SESSION, "messages": [{"info": i, "parts": p} for i, p in CHAT]}))
    stream = tmp_path / "events.jsonl"
    rows: list[dict[str, Any]] = [{"type": "session.created", "properties": {"info": SESSION}}]
    for head, parts in CHAT:
        rows.append({"type": "message.updated", "properties": {"info": head}})
        rows += [{"type": "message.part.updated", "properties": {"part": {**p, "messageID": head["id"]}}} for p in parts]
    rows[2]["properties"]["part"]["text"] = "o"
    for delta in ("n", "e"):
        rows.append({"type": "message.part.delta", "properties": {"partID": "p1", "field": "text", "delta": delta}})
    stream.write_text("".join(json.dumps(row) + "\n" for row in rows))
    root = tmp_path / "tree" / "storage"
    for folder in ("session/p", "message/ses_1"):
        (root / folder).mkdir(parents=True)
    (root / "session/p/ses_1.json").write_text(json.dumps(SESSION))
    for head, parts in CHAT:
        (root / f"message/ses_1/{head['id']}.json").write_text(json.dumps(head))
        (root / f"part/{head['id']}").mkdir(parents=True)
        for part in parts:
            (root / f"part/{head['id']}/{part['id']}.json").write_text(json.dumps({**part, "messageID": head["id"]}))
    for path in (export, stream, root, tmp_path / "tree"):
        session = open_session(path)
        assert session.format.name == "opencode" and session.request().messages == one, path


def test_the_old_rules_leave_out_calls_that_were_cut_off(tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    old = {**SESSION, "version": "1.0.0"}
    export.write_text(json.dumps({"info": old, "messages": [{"info": i, "parts": p} for i, p in CHAT]}))
    session = open_session(export)
    assert "[Tool execution was interrupted]" not in said_by(session)
    assert session.projection().left["p4"][0] == "pairing"


def test_a_summary_stands_for_what_came_before_it(tmp_path: Path) -> None:
    more = [
        (info("msg_7", "user", 1800), [{"id": "pa", "type": "compaction", "auto": True}]),
        (info("msg_8", "assistant", 1900, parentID="msg_7", summary=True, finish="stop"), [words("pb", "SUM")]),
        (info("msg_9", "user", 2000), [words("pc", "go on", synthetic=True)]),
        (info("msg_a", "assistant", 2100, modelID="m"), [words("pd", "done")]),
    ]
    session = open_session(make_database(tmp_path / "opencode.db", [*CHAT, *more]))
    assert [s.kind for s in session.steps] == ["main", "main", "main", "compact", "main"]
    assert said_by(session, 5) == ["What did we do so far?", "SUM", "go on"]
    assert [p.state for p in session.request(5).pieces] == ["reminder", "summary", "reminder"]
    assert session.request(4).basis == "partial" and "one" in said_by(session, 4)[0]
    assert session.projection(5).left["msg_1"][0] == "boundary"


def test_reverted_messages_are_on_disk_and_not_in_the_next_request(tmp_path: Path) -> None:
    session = open_session(make_database(tmp_path / "opencode.db", CHAT, revert="msg_5"))
    assert said_by(session)[-1] == "five" and session.leaf.record == "msg_4"
    assert session.leaf.alternatives[0].record == "msg_6"
    assert "msg_5" in session.format.conversation(session.log) and "msg_5" not in session.format.reachable(session.log)


def test_messages_older_than_their_session_came_with_a_fork_and_were_no_calls_of_it(tmp_path: Path) -> None:
    path = make_database(tmp_path / "opencode.db", CHAT)
    db = sqlite3.connect(path)
    db.execute("UPDATE session SET time_created = 1500")
    db.commit()
    db.close()
    session = open_session(path)
    assert [s.record for s in session.steps] == ["msg_6"] and said_by(session, 1)[0] == "one"


def test_a_database_with_a_write_ahead_log_is_read_whole_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    make_database(path, CHAT[:4])
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = wal")
    head, parts = CHAT[4]
    writer.execute("INSERT INTO message VALUES (?, 'ses_1', 1600, ?)", (head["id"], json.dumps(head)))
    writer.execute("INSERT INTO part VALUES ('p8', 'msg_5', 'ses_1', ?)", (json.dumps(parts[0]),))
    writer.commit()
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()}
    assert "opencode.db-wal" in before
    assert said_by(open_session(path))[-1] == "six"
    assert said_by(open_session(tmp_path))[-1] == "six"
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()} == before
    writer.close()


@pytest.mark.shared
def test_all_samples_open() -> None:
    for path in (
        shared("samples/opencode/kimaki-three-parallel-sleeps.events.jsonl"),
        shared("samples/opencode/agent-sessions-storage/storage_v2"),
        shared("samples/opencode/agent-sessions-storage/storage_legacy"),
    ):
        for one in opencode.list_sessions(path):
            session = open_session(path, one.session_id)
            assert session.format.name == "opencode" and session.log.events, path
            for step in session.steps:
                session.request(step.number)
