from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nova_nb.foreign import codex
from nova_nb.history.events import CompactionBoundaryCreated
from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import atoms
from tests.foreign.proof import open_all, prove


def sessions(folder: Path) -> list[Session]:
    return open_all(folder, "session/sessions/*/*/*/rollout-*.jsonl")


def without_made_up_ids(items: list[Any]) -> list[Any]:
    """Input items without what provably stands in no file: the ids of made-up outputs, and the base instructions
    item, whose logged text is sent without the passages on tools that are not offered."""
    out = []
    for i, item in enumerate(items):
        base = i == 0 and item.get("role") == "developer" and len(item["content"][0]["text"]) > 12_000
        made_up = item.get("output") == "aborted"
        out.append("base instructions" if base else {k: v for k, v in item.items() if not (made_up and k == "id")})
    return out


def said(rows: list[Any]) -> list[Any]:
    """What was said in words: not the base instructions, nor an encrypted compaction."""
    rows = [row for row in rows if row != "base instructions"]
    return [atom for atom in atoms(rows) if not {"compaction", "compaction_trigger"} & set(atom)]


@pytest.mark.shared
@pytest.mark.parametrize(("agent", "exact"), [("codex-0.171.0", 93), ("codex-0.98.0", 33)])
def test_every_captured_request_is_rebuilt_exactly(agent: str, exact: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = prove(agent, sessions, without_made_up_ids, said)
    with capsys.disabled():
        print("\n" + tally.table(agent))
    assert tally.total("exact") >= exact, tally.table(agent)


@pytest.mark.shared
def test_all_sample_rollouts_open_and_every_step_has_a_request() -> None:
    for path in sorted(shared("samples/codex").glob("*.jsonl")):
        session = open_session(path)
        assert session.format.name == "codex"
        for step in session.steps:
            request = session.request(step.number)
            assert len(request.body["input"]) >= len(request.messages)
        assert set(session.format.reachable(session.log)) <= set(session.format.conversation(session.log))


THREAD = "01a22d93-7c6e-7c20-892a-f120302bcf40"
OTHER = "01a22d93-7c6e-7c20-892a-f120302bcf41"


def meta(version: str = "0.171.0", id: str = THREAD, **more: Any) -> dict[str, Any]:
    base = {"text": "Be brief."}
    return {
        "type": "session_meta",
        "payload": {"id": id, "cli_version": version, "model_provider": "x", "base_instructions": base, **more},
    }


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, **more}}


def say(role: str, text: str, id: str | None = None) -> dict[str, Any]:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return item("message", role=role, content=[part], **({"id": id} if id else {}))


def call(id: str) -> dict[str, Any]:
    return item("function_call", name="exec", arguments='{"cmd": "ls"}', call_id=id)


def output(id: str, text: str) -> dict[str, Any]:
    return item("function_call_output", call_id=id, output=text)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, **more}}


def count(total: int, last: int, cached: int = 0) -> dict[str, Any]:
    usage = {"input_tokens": last, "cached_input_tokens": cached, "output_tokens": 7}
    return event("token_count", info={"total_token_usage": {"input_tokens": total}, "last_token_usage": usage})


def write(folder: Path, *rows: dict[str, Any], id: str = THREAD, time: str = "2026-11-30T10-00-00") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-{time}-{id}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-11-30T10:00:00Z", **row}) + "\n" for row in rows))
    return path


def said_by(session: Session, step: int | None = None) -> list[Any]:
    return [atom[-1] for atom in atoms(session.request(step).messages) if atom[0] != "call"]


def test_a_step_is_an_answer_with_its_counts_and_holds_what_came_before_it(tmp_path: Path) -> None:
    rows = [meta(), event("task_started"), say("user", "go"), item("reasoning", summary=[], encrypted_content="e"), call("c1"),
            count(100, 100, 40), output("c1", "files"), count(100, 100, 40), say("assistant", "done"), count(260, 160, 100)]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert [(s.kind, s.usage.context if s.usage else 0, s.usage.cache_read if s.usage else 0) for s in session.steps] == [
        ("main", 100, 40),
        ("main", 160, 100),
    ]
    body = session.request(2).body
    assert [i["type"] for i in body["input"]] == ["message", "message", "reasoning", "function_call", "function_call_output"]
    assert body["input"][0]["role"] == "developer"
    assert [len(m["content"]) for m in session.request(2).messages] == [1, 2, 1]


def test_before_0_171_the_base_instructions_are_a_field_of_their_own(tmp_path: Path) -> None:
    request = open_session(write(tmp_path, meta("0.98.0"), say("user", "go"))).request()
    assert request.body["instructions"] == "Be brief." and len(request.body["input"]) == 1
    assert open_session(write(tmp_path, meta("9.0.0"), say("user", "go"), say("assistant", "ok"))).steps[0].basis == "partial"


def test_a_replacement_history_stands_for_all_before_it_and_names_what_it_kept(tmp_path: Path) -> None:
    kept, fresh = say("user", "rule", "m1")["payload"], say("developer", "<permissions instructions>x")["payload"]
    summary = {"type": "compaction", "encrypted_content": "opaque"}
    rows = [meta(), say("user", "rule", "m1"), say("assistant", "a", "m2"),
            {"type": "compacted", "payload": {"message": "", "replacement_history": [fresh, kept, summary]}},
            say("user", "next", "m3"), say("assistant", "b", "m4")]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert [s.kind for s in session.steps] == ["main", "compact", "main"]
    pieces = session.request(3).pieces
    assert [(p.state, p.sources[0]) for p in pieces] == [
        ("attachment", "L4"), ("whole", "m1"), ("summary", "L4"), ("whole", "m3")]  # fmt: skip
    assert "encrypted" in pieces[2].reason and pieces[2].block["encrypted_content"] == "opaque"
    boundary = next(e for e in session.log.events if isinstance(e, CompactionBoundaryCreated))
    assert boundary.kept == ["m1"] and len(boundary.meta["replacement_history"]) == 3
    assert session.projection(3).left["m2"] == ("boundary", "behind the compaction at line 4")
    assert session.request(2).body["input"][-1] == {"type": "compaction_trigger"}


def test_without_a_replacement_the_persons_words_and_the_newest_context_stay(tmp_path: Path) -> None:
    context = say("user", "<environment_context>here</environment_context>")
    rows = [meta("0.98.0"), context, say("user", "rule"), say("assistant", "a"), context, say("user", "more"), say("assistant", "b"),
            {"type": "compacted", "payload": {"message": "SUM"}}, say("assistant", "c")]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert said_by(session, 4) == ["<environment_context>here</environment_context>", "rule", "more", "SUM"]


def test_a_rollback_takes_turns_off_the_branch_and_says_where(tmp_path: Path) -> None:
    rows = [meta(), say("user", "one", "m1"), say("assistant", "two", "m2"), say("user", "three", "m3"), say("assistant", "four", "m4"),
            event("thread_rolled_back", num_turns=1), say("user", "five", "m5")]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert said_by(session) == ["one", "two", "five"] and said_by(session, 2) == ["one", "two", "three"]
    assert session.projection().left["m3"] == ("branch", "rolled back at line 6")
    assert session.format.reachable(session.log) == ["m1", "m2", "m5"]


def test_a_question_that_was_rolled_back_before_its_answer_is_no_step(tmp_path: Path) -> None:
    rows = [meta(), event("task_started"), say("user", "one"), event("thread_rolled_back", num_turns=1), event("task_started"),
            say("user", "two"), say("assistant", "ok")]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert [said_by(session, s.number) for s in session.steps] == [["two"]]


def test_a_count_whose_total_has_not_moved_belongs_to_no_answer(tmp_path: Path) -> None:
    rows = [meta("0.98.0"), say("user", "one"), say("assistant", "a"), count(100, 100), count(100, 7), say("user", "two"),
            say("assistant", "b")]  # fmt: skip
    session = open_session(write(tmp_path, *rows))
    assert [s.usage.context if s.usage else None for s in session.steps] == [100, None]


def test_a_call_without_output_gets_one_on_the_wire_right_behind_it(tmp_path: Path) -> None:
    rows = [meta(), say("user", "go"), call("c1"), call("c2"), output("c1", "ok"), event("task_started"), say("user", "and?")]
    request = open_session(write(tmp_path, *rows)).request()
    assert [i.get("call_id") for i in request.body["input"][2:6]] == ["c1", "c2", "c2", "c1"]
    assert [p.state for p in request.pieces] == ["whole", "whole", "whole", "repair", "whole", "whole"]


def test_a_question_that_lost_its_answer_is_a_step_and_one_with_open_calls_is_not(tmp_path: Path) -> None:
    rows = [
        meta(),
        event("task_started"),
        say("user", "one"),
        event("task_started"),
        say("user", "two"),
        say("assistant", "ok"),
    ]
    session = open_session(write(tmp_path, *rows))
    assert [said_by(session, s.number) for s in session.steps] == [["one"], ["one", "two"]]


def test_a_cut_output_names_the_row_that_shows_more_of_it(tmp_path: Path) -> None:
    shown = event("item_completed", item={"type": "CommandExecution", "id": "c1", "aggregated_output": "all of it"})
    rows = [
        meta(),
        say("user", "go"),
        call("c1"),
        shown,
        output("c1", "head …7155 tokens truncated… tail"),
        say("assistant", "ok"),
    ]
    session = open_session(write(tmp_path, *rows))
    piece = next(p for p in session.request(2).pieces if p.state == "preview")
    assert piece.original == "L4" and session.log.get("L4") is not None


def test_a_fork_reads_the_shared_prefix_from_the_other_file_and_says_when_it_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "2026"
    first = [
        {**row, "ordinal": n} for n, row in enumerate([meta(), say("user", "one"), say("assistant", "two"), say("user", "off")])
    ]
    base = write(folder, *first)
    head = meta(id=OTHER, history_base={"thread_id": THREAD, "end_ordinal_exclusive": 3})
    rows = [{**row, "ordinal": n} for n, row in enumerate([head, say("user", "three"), say("assistant", "four")], 3)]
    fork = write(folder, *rows, id=OTHER, time="2026-11-30T11-00-00")
    session = open_session(fork)
    assert said_by(session) == ["one", "two", "three", "four"] and len(session.steps) == 1
    assert open_session(tmp_path / "sessions").log.source.session_id in (THREAD, OTHER)
    assert {s.session_id: s.title for s in codex.list_sessions(tmp_path)} == {THREAD: "one", OTHER: "three"}
    base.unlink()
    lone = open_session(fork)
    assert said_by(lone) == ["three", "four"] and lone.log.damage[0].kind == "missing-base"
    assert THREAD in lone.log.damage[0].message


@pytest.mark.parametrize("thread", ["../../etc/passwd", "", "rollout", None])
def test_a_header_names_another_file_by_a_whole_thread_id_or_not_at_all(thread: str | None, tmp_path: Path) -> None:
    write(tmp_path, {**meta(), "ordinal": 0}, {**say("user", "not yours"), "ordinal": 1})
    head = meta(id=OTHER, history_base={"thread_id": thread, "end_ordinal_exclusive": 9})
    session = open_session(write(tmp_path, head, say("user", "x"), id=OTHER, time="2026-11-30T11-00-00"))
    assert said_by(session) == ["x"] and session.log.damage[0].kind == "missing-base"


def test_a_compressed_rollout_reads_like_the_plain_one(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = write(tmp_path, meta(), say("user", "go"), say("assistant", "ok"))
    packed = plain.with_name(plain.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    assert open_session(packed).request().canonical == open_session(plain).request().canonical


def test_the_two_oldest_shapes_are_read(tmp_path: Path) -> None:
    bare = tmp_path / "bare.jsonl"
    rows = [{"id": "s", "timestamp": "2025-05-01T00:00:00Z", "instructions": None}, say("user", "go")["payload"]]
    bare.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = tmp_path / "rollout.json"
    session = {"id": "s", "timestamp": "2025-05-01T00:00:00Z", "instructions": ""}
    whole.write_text(json.dumps({"session": session, "items": [say("user", "go")["payload"]]}))
    for path in (bare, whole):
        assert said_by(open_session(path)) == ["go"]
