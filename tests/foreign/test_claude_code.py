"""The reading rules of Claude Code sessions, one by one, on invented rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nova_nb as nova
from nova_nb.errors import SessionNotFound
from nova_nb.foreign import claude_code
from nova_nb.history.events import CompactionBoundaryCreated, ForeignRow, MessageAppended
from nova_nb.session import Session
from tests.conftest import shared
from tests.foreign.claude_rows import SESSION, Rows, call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def opened(rows: Rows, path: Path) -> Session:
    return nova.open_session(rows.write(path))


def words(session: Session, step: int | None = None) -> list[Any]:
    """(role, what each block says), in short."""
    out = []
    for message in session.request(step=step).messages:
        said = []
        for block in message["content"]:
            said.append(block.get("text") or block.get("id") or (block["tool_use_id"], block["content"]))
        out.append((message["role"], *said))
    return out


def test_one_answer_over_several_rows_is_one_message_with_one_usage(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", "first")
    rows.answer("a2", "g1", "second")
    session = opened(rows, path)
    assert words(session) == [("user", "go"), ("assistant", "first", "second")]
    (step,) = session.steps
    assert (step.record, step.line, step.model) == ("a1", 2, "m-1")
    assert step.usage is not None
    assert (step.usage.context, step.usage.output) == (113, 2)


def test_results_of_parallel_calls_are_brought_back_in_file_order(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1"))
    rows.answer("a2", "g1", call("c2"))
    rows.answer("a3", "g1", call("c3"))
    rows.result("r3", "c3", "three", "a3")
    rows.result("r1", "c1", "one", "a1")
    rows.result("r2", "c2", "two", "a2")
    rows.answer("b1", "g2", "done")
    session = opened(rows, path)
    calls = [("user", "go"), ("assistant", "c1", "c2", "c3"), ("user", ("c3", "three"), ("c1", "one"), ("c2", "two"))]
    assert words(session, 2) == calls
    assert words(session) == [*calls, ("assistant", "done")]
    assert len(session.format.reachable(session.log)) == 8


def test_a_result_written_before_its_answer_was_complete_does_not_part_it(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1"))
    rows.result("r1", "c1", "one")
    rows.answer("a2", "g1", call("c2"))
    rows.result("r2", "c2", "two")
    assert words(opened(rows, path)) == [("user", "go"), ("assistant", "c1", "c2"), ("user", ("c1", "one"), ("c2", "two"))]


def test_rows_that_say_nothing_are_links_of_the_chain(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.add("p1", "progress", data={"type": "hook_progress"})
    rows.add("s1", "system", subtype="turn_duration")
    rows.add("n1", "brand-new-type", payload={"x": 1})
    rows.answer("a1", "g1", "done")
    session = opened(rows, path)
    assert words(session) == [("user", "go"), ("assistant", "done")]
    kinds = [event.kind for event in session.log.events if isinstance(event, ForeignRow)]
    assert kinds == ["progress/hook_progress", "system/turn_duration", "brand-new-type"]
    assert session.log.events[3].data["payload"] == {"x": 1}  # type: ignore[attr-defined]


def compacted(**about: Any) -> Rows:
    rows = Rows()
    rows.user("u1", "old rule")
    rows.answer("a1", "g1", "noted")
    rows.user("u2", "kept question")
    rows.answer("a2", "g2", "kept answer")
    rows.boundary("c1", "a2", **about)
    return rows


def test_a_boundary_ends_the_request_and_its_summary_is_sent(path: Path) -> None:
    rows = compacted()
    rows.summary("k1")
    rows.user("u3", "on")
    session = opened(rows, path)
    assert words(session) == [("user", "In short.\n", "on")]
    assert [piece.state for piece in session.request().pieces] == ["summary", "whole"]
    assert len(session.format.reachable(session.log)) == 6
    boundary = session.log.get("c1")
    assert isinstance(boundary, CompactionBoundaryCreated)
    assert (boundary.trigger, boundary.tokens_before, boundary.logical_parent) == ("auto", 900, "a2")
    assert [step.kind for step in session.steps] == ["main", "main", "compact"]
    assert session.steps[2].basis == "partial"
    assert words(session, 3)[0] == ("user", "old rule")


KEPT = {"anchorUuid": "k1", "uuids": ["u2", "a2"], "allUuids": ["u2", "a2"]}
SEGMENT = {"anchorUuid": "k1", "headUuid": "u2", "tailUuid": "a2"}


@pytest.mark.parametrize(
    "about",
    [{"preservedMessages": KEPT}, {"preservedSegment": SEGMENT}, {"preservedMessages": KEPT, "preservedSegment": SEGMENT}],
)
@pytest.mark.parametrize("below", ["k1", "a2"], ids=["below the summary", "below the kept tail"])
def test_kept_messages_come_after_the_summary_wherever_new_rows_hang(path: Path, about: dict[str, Any], below: str) -> None:
    rows = compacted(**about)
    rows.summary("k1")
    rows.user("u3", "on", below)
    session = opened(rows, path)
    assert words(session) == [("user", "In short.\n", "kept question"), ("assistant", "kept answer"), ("user", "on")]
    assert len(session.format.reachable(session.log)) == 6
    assert session.leaf.record == "u3"


def test_the_kept_part_stands_before_a_summary_of_what_came_later(path: Path) -> None:
    rows = compacted(preservedMessages={"anchorUuid": "c1", "uuids": ["u1", "a1"]})
    rows.summary("k1")
    rows.user("u3", "on")
    assert words(opened(rows, path)) == [("user", "old rule"), ("assistant", "noted"), ("user", "In short.\n", "on")]


def test_kept_messages_that_are_in_no_row_are_left_out(path: Path) -> None:
    rows = Rows()
    rows.boundary("c1", "gone", preservedMessages={"anchorUuid": "k1", "uuids": ["gone", "gone2"]}, preservedSegment=SEGMENT)
    rows.summary("k1")
    rows.user("u3", "on")
    assert words(opened(rows, path)) == [("user", "In short.\n", "on")]


def test_a_boundary_with_a_dead_link_is_crossed_by_what_it_kept(path: Path) -> None:
    rows = compacted(preservedMessages=KEPT)
    boundary = rows.rows.pop()
    rows.user("x1", "a turn that was rewound", "a1")
    rows.rows.append(boundary | {"logicalParentUuid": "never-written"})
    rows.last = "c1"
    rows.summary("k1")
    session = opened(rows, path)
    assert session.format.reachable(session.log) == ["u1", "a1", "u2", "a2", "k1"]


def test_cleared_results_are_placeholders_from_the_micro_compaction_on(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1"))
    rows.result("r1", "c1", "long text")
    rows.answer("a2", "g2", "read it")
    rows.add(
        "m1", "system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["c1"], "tokensSaved": 9}
    )
    rows.user("u2", "on")
    rows.answer("a3", "g3", "ok")
    session = opened(rows, path)
    assert words(session, 2)[2] == ("user", ("c1", "long text"))
    piece = next(p for p in session.request(step=3).pieces if p.block.get("type") == "tool_result")
    assert (piece.state, piece.block["content"], piece.original) == ("placeholder", "[Old tool result content cleared]", "r1")


def test_a_spilled_result_is_a_preview_and_its_row_keeps_the_whole(path: Path) -> None:
    text = "<persisted-output>\nOutput too large (67KB). Full output saved to: /w/tool-results/c1.txt\n\nPreview (first 2KB):\nab\n</persisted-output>"
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1", "Bash"))
    rows.result("r1", "c1", text, toolUseResult={"stdout": "the whole", "stderr": ""})
    session = opened(rows, path)
    piece = session.request().pieces[-1]
    assert (piece.state, piece.original) == ("preview", "/w/tool-results/c1.txt")
    row = claude_code.raw(session.log, "r1")
    assert row is not None
    assert row["toolUseResult"]["stdout"] == "the whole"


def test_a_call_without_a_result_and_a_result_without_a_call_are_not_sent(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.result("r0", "nowhere", "stray")
    rows.answer("a1", "g1", "look", call("c1"))
    rows.answer("a2", "g1", call("c2"))
    rows.result("r1", "c1", "one", "a1")
    rows.result("r1b", "c1", "one again", "r1")
    session = opened(rows, path)
    assert words(session) == [("user", "go"), ("assistant", "look", "c1"), ("user", ("c1", "one"))]
    assert {id: reason[0] for id, reason in session.projection().left.items()} == dict.fromkeys(("r0", "a2", "r1b"), "pairing")


def test_reminders_stand_before_the_prompt_and_behind_results_inside_them(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.add("t1", "attachment", attachment={"type": "date"}, rendered=[{"content": "<date>"}])
    rows.answer("a1", "g1", call("c1"))
    rows.result("r1", "c1", "one\t")
    rows.add("t2", "attachment", attachment={"type": "tokens"}, rendered=[{"content": "<left>"}])
    rows.add("t3", "attachment", attachment={"type": "sign"}, rendered=[{"content": "<sign>"}], renderedBesideToolResult=True)
    session = opened(rows, path)
    assert words(session) == [("user", "<date>\n", "go"), ("assistant", "c1"), ("user", ("c1", "one\n\n<left>"), "<sign>")]
    assert session.request().basis == "rebuilt"
    assert session.request().pieces[3].sources == ("r1", "t2")


def test_a_prompt_that_waited_in_the_queue_is_sent_though_its_words_are_not_exact(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1"))
    rows.result("r1", "c1", "one")
    rows.add("q1", "attachment", attachment={"type": "queued_command", "prompt": "stop after that"})
    rows.answer("a2", "g2", "ok")
    session = opened(rows, path)
    assert "stop after that" in words(session, 2)[2][1][1]
    assert session.steps[1].basis == "partial"
    assert "wording" in session.request(step=2).unknown[0]


def test_hidden_rows_are_sent_and_not_shown(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.user("m1", "skill text", isMeta=True)
    rows.answer("a1", "g1", "ok")
    session = opened(rows, path)
    assert words(session)[0] == ("user", "go\n", "skill text")
    assert session.format.shown(session.log) == ["u1", "a1"]


def test_an_error_text_is_no_leaf_and_not_sent_but_the_clients_own_answer_is(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("n1", "s1", "No response requested.", isApiErrorMessage=True, message={"model": "<synthetic>"})
    rows.user("u2", "again")
    rows.answer("e1", "s2", "API Error: 529", isApiErrorMessage=True, message={"model": "<synthetic>"})
    session = opened(rows, path)
    assert session.leaf.record == "u2"
    assert [alternative.policy for alternative in session.leaf.alternatives] == ["last-row"]
    assert words(session) == [("user", "go"), ("assistant", "No response requested."), ("user", "again")]
    assert session.steps == ()
    rows.user("u3", "once more")
    session = opened(rows, path)
    assert words(session)[2:] == [("user", "again\n", "once more")]
    assert session.projection().left["e1"][0] == "projection"


def test_what_a_refusal_took_back_is_not_sent(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", "half an answer")
    rows.add("f1", "system", subtype="model_refusal_fallback", retractedMessageUuids=["a1"], refusedUserMessageUuid="u1")
    rows.answer("a2", "g2", "another")
    session = opened(rows, path)
    assert words(session) == [("user", "go"), ("assistant", "another")]
    assert session.projection().left["a1"][0] == "provider"


def test_the_first_row_of_a_repeated_id_counts_and_a_circle_ends_the_walk(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go", "a2")
    rows.answer("a1", "g1", "one")
    rows.answer("a2", "g2", "two")
    rows.user("u1", "copied", None)
    session = opened(rows, path)
    assert [event.id for event in session.log.events] == ["u1", "a1", "a2", "u1#L4"]
    assert session.format.conversation(session.log) == ["u1", "a1", "a2"]
    assert words(session) == [("user", "go"), ("assistant", "one"), ("assistant", "two")]


def test_a_rewind_leaves_the_older_branch(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", "one")
    rows.user("u2", "plan a")
    rows.answer("a2", "g2", "a it is")
    rows.user("u3", "plan b", "a1")
    session = opened(rows, path)
    assert words(session) == [("user", "go"), ("assistant", "one"), ("user", "plan b")]
    assert session.format.reachable(session.log) == ["u1", "a1", "u3"]
    assert [(a.record, a.policy) for a in session.leaf.alternatives] == [("a2", "longest-chain")]


def test_an_old_client_forgets_parallel_calls_when_it_resumes(tmp_path: Path) -> None:
    rows = Rows(version="2.0.77")
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1"))
    rows.answer("a2", "g1", call("c2"))
    rows.result("r1", "c1", "one", "a1")
    rows.result("r2", "c2", "two", "a2")
    rows.answer("b1", "g2", "done")
    rows.user("u2", "more")
    rows.answer("b2", "g3", "again")
    path = rows.write(tmp_path / f"{SESSION}.jsonl")
    live = nova.open_session(path)
    assert words(live, 3)[1] == ("assistant", "c1", "c2")
    warmup = Rows(version="2.0.77", session="99999999-0000-4000-8000-000000000000")
    warmup.user("w1", "Warmup", isSidechain=True, agentId="abc")
    warmup.answer("w2", "gw", "Ready.", isSidechain=True, agentId="abc", sessionId=SESSION)
    warmup.rows[0]["timestamp"] = warmup.rows[1]["timestamp"] = rows.rows[5]["timestamp"].replace(".000", ".500")
    warmup.write(tmp_path / "agent-abc.jsonl")
    resumed = nova.open_session(path)
    assert [step.kind for step in resumed.steps] == ["main", "main", "warmup", "main"]
    assert words(resumed, 2)[1] == ("assistant", "c1", "c2")
    assert words(resumed, 4) == [
        ("user", "go"),
        ("assistant", "c2"),
        ("user", ("c2", "two")),
        ("assistant", "done"),
        ("user", "more"),
    ]
    assert "walked by parents alone" in resumed.projection(4).left["r1"][1]


@pytest.mark.parametrize(("version", "says"), [("9.9.9", "the rules of 9.9.9 are not known"), ("", "no row names a version")])
def test_an_unknown_version_is_read_by_the_newest_rules_and_says_so(path: Path, version: str, says: str) -> None:
    rows = Rows(version=version)
    rows.user("u1", "go")
    rows.answer("a1", "g1", "ok")
    session = opened(rows, path)
    assert session.steps[0].basis == "partial"
    assert session.request(step=1).unknown[0].startswith(says)
    assert session.request().basis == "partial"
    assert words(session) == [("user", "go"), ("assistant", "ok")]


def test_a_file_that_begins_in_the_middle_lacks_what_the_process_still_had(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go on", "in-another-file")
    rows.answer("a1", "g1", "ok")
    session = opened(rows, path)
    assert session.steps[0].basis == "partial"
    assert session.request(step=1).unknown == (
        "what came before the first row of this chain: its parent is in no row of this file",
    )
    assert session.request().basis == "rebuilt"


def test_kept_messages_of_another_file_are_named_as_missing(path: Path) -> None:
    rows = Rows()
    rows.boundary("c1", "gone", preservedMessages={"anchorUuid": "k1", "uuids": ["gone"]})
    rows.summary("k1")
    rows.user("u3", "on")
    rows.answer("a1", "g1", "ok")
    session = opened(rows, path)
    assert [step.basis for step in session.steps] == ["partial"]
    assert "kept word for word" in session.request(step=1).unknown[0]


def subagent(rows: Rows, prefix: str, parent: str | None = None) -> None:
    rows.user(f"{prefix}1", "find it", parent, isSidechain=True, agentId="ag1")
    rows.answer(f"{prefix}2", f"{prefix}g", "found", isSidechain=True, agentId="ag1")


@pytest.mark.parametrize("layout", ["inline", "beside", "folder"])
def test_subagents_are_found_in_each_layout_and_stay_out_of_the_main_request(tmp_path: Path, layout: str) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", call("c1", "Task", prompt="find it"))
    side = rows if layout == "inline" else Rows()
    subagent(side, "s")
    rows.result("r1", "c1", "found", "a1")
    rows.answer("a2", "g2", "done")
    if layout != "inline":
        side.rows[0]["timestamp"] = side.rows[1]["timestamp"] = rows.rows[1]["timestamp"].replace(".000", ".500")
        side.write(tmp_path / {"beside": "agent-ag1.jsonl", "folder": f"{SESSION}/subagents/agent-ag1.jsonl"}[layout])
    other = Rows(session="99999999-0000-4000-8000-000000000000")
    subagent(other, "o")
    other.write(tmp_path / "agent-other.jsonl")
    session = nova.open_session(rows.write(tmp_path / f"{SESSION}.jsonl"))
    assert [step.kind for step in session.steps] == ["main", "subagent", "main"]
    assert words(session, 2) == [("user", "find it")]
    assert words(session) == [("user", "go"), ("assistant", "c1"), ("user", ("c1", "found")), ("assistant", "done")]
    if layout != "inline":
        (listed,) = [info for info in nova.list_sessions(tmp_path) if info.parent == SESSION]
        assert (listed.session_id, listed.parent) == ("agent-ag1", SESSION)
        alone = nova.open_session(listed.path)
        assert [step.kind for step in alone.steps] == ["subagent"]
        assert words(alone) == [("user", "find it"), ("assistant", "found")]


def test_the_compactions_own_file_makes_its_request_whole(tmp_path: Path) -> None:
    rows = compacted()
    rows.summary("k1")
    own = Rows()
    own.add(
        "h1", "user", "a1", message={"role": "user", "content": "<hook>"}, isSidechain=True, agentId="acompact-1", isMeta=True
    )
    own.add("i1", "user", "a2", message={"role": "user", "content": "Summarise."}, isSidechain=True, agentId="acompact-1")
    own.answer("z1", "gz", "In short.", isSidechain=True, agentId="acompact-1")
    own.write(tmp_path / SESSION / "subagents" / "agent-acompact-1.jsonl")
    session = nova.open_session(rows.write(tmp_path / f"{SESSION}.jsonl"))
    step = next(step for step in session.steps if step.kind == "compact")
    assert step.basis == "rebuilt"
    assert words(session, step.number) == [
        ("user", "old rule"),
        ("assistant", "noted"),
        ("user", "<hook>\n", "kept question"),
        ("assistant", "kept answer"),
        ("user", "Summarise."),
    ]


def test_a_folder_opens_the_session_used_last_or_the_one_asked_for(tmp_path: Path) -> None:
    for name, hour in (("aaaa", "08"), ("bbbb", "10"), ("cccc", "09")):
        rows = Rows(session=name)
        rows.user(f"{name}1", f"hello {name}")
        rows.rows[0]["timestamp"] = f"2026-05-04T{hour}:00:00.000Z"
        rows.write(tmp_path / "projects" / "-w" / f"{name}.jsonl")
    (tmp_path / "projects" / "-w" / "empty.jsonl").write_bytes(b"")
    for folder in (tmp_path, tmp_path / "projects", tmp_path / "projects" / "-w"):
        assert [info.session_id for info in nova.list_sessions(folder)] == ["bbbb", "cccc", "aaaa"]
        assert words(nova.open_session(folder)) == [("user", "hello bbbb")]
        assert words(nova.open_session(folder, session_id="aaaa")) == [("user", "hello aaaa")]
        with pytest.raises(SessionNotFound, match="the latest are bbbb, cccc, aaaa"):
            nova.open_session(folder, session_id="dddd")
    with pytest.raises(SessionNotFound, match="it holds aaaa"):
        nova.open_session(tmp_path / "projects" / "-w" / "aaaa.jsonl", session_id="dddd")


def test_a_continued_file_goes_by_both_of_its_session_ids(path: Path) -> None:
    rows = Rows(session="first")
    rows.user("u1", "go")
    rows.session = "second"
    rows.answer("a1", "g1", "ok")
    path = rows.write(path)
    assert nova.open_session(path, session_id="first").log.source.session_id == "second"


def test_rows_of_any_shape_are_read(path: Path) -> None:
    odd = [
        '{"type":"user","uuid":5,"message":{"role":"user","content":"no id"}}',
        '{"type":"user","uuid":"u1","parentUuid":7,"message":{"role":3,"content":["bare",{"type":"text","text":"block"}]}}',
        '{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":9,"content":[{"type":"text","text":"x"}],"usage":{"input_tokens":"?"}}}',
        '{"type":"assistant","uuid":"a2","parentUuid":"a1","message":"a string"}',
        '{"type":"system","subtype":"compact_boundary","uuid":"c1","parentUuid":null,"compactMetadata":[1]}',
        '{"type":["list"],"uuid":"x1"}',
    ]
    path.write_text("\n".join(odd) + "\n" + '{"parentUuid":null}\n', "utf-8")
    session = nova.open_session(path)
    assert session.format.conversation(session.log) == ["u1", "a1"]
    assert not session.log.damage
    assert [e.kind for e in session.log.events if isinstance(e, ForeignRow)] == ["user", "assistant", "untyped", "untyped"]
    assert [(step.kind, step.record) for step in session.steps] == [("main", "a1"), ("compact", "c1")]
    assert session.request(step=1).messages[0]["content"][1] == {"type": "text", "text": "block"}


def test_usage_is_on_every_row_and_the_step_takes_the_last(path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    rows.answer("a1", "g1", "x")
    rows.answer("a2", "g1", "y")
    session = opened(rows, path)
    outputs = [e.usage.output for e in session.log.events if isinstance(e, MessageAppended) and e.usage]
    assert outputs == [1, 2]
    assert session.steps[0].usage is not None
    assert session.steps[0].usage.output == 2


@pytest.mark.parametrize("name", ["claude-code-compaction", "claude-code-short"])
def test_the_packaged_sessions_open_with_all_their_steps(name: str) -> None:
    session = nova.open_session(nova.examples.path(name))
    kinds = {step.kind for step in session.steps}
    assert kinds == ({"main", "compact"} if "compaction" in name else {"main"})
    for step in session.steps:
        request = session.request(step=step.number)
        assert request.messages[0]["role"] == "user"
        calls = {b["id"] for m in request.messages for b in m["content"] if b["type"] == "tool_use"}
        results = [b["tool_use_id"] for m in request.messages for b in m["content"] if b["type"] == "tool_result"]
        assert set(results) == calls
        assert len(results) == len(calls)
    assert not session.log.damage


@pytest.mark.shared
@pytest.mark.parametrize(
    "root", ["samples/claude-code", "authentic/claude-code-2.0.77", "authentic/claude-code-2.1.332", "cases"]
)
def test_every_real_session_opens_and_every_step_has_a_request(root: str) -> None:
    for file in sorted(shared(root).rglob("*.jsonl")):
        if not claude_code.sniff(file, file.read_bytes()[:65_536]):
            continue
        session = nova.open_session(file)
        inside = set(session.format.conversation(session.log))
        assert set(session.format.reachable(session.log)) <= inside
        for step in (None, *(step.number for step in session.steps[:: max(1, len(session.steps) // 5)])):
            request = session.request(step=step)
            assert request.canonical
            assert all(p.sources for p in request.pieces)


def recorded_rows(reminder_role: str) -> Rows:
    """A request row that names its messages by hash, reminders in messages of their own role."""
    from nova_nb.foreign.claude_code.recorded import message_hash

    rows = Rows(version="2.1.332")
    rows.user("u1", "go")
    rows.add("t1", "attachment", attachment={"type": "date"}, rendered=[{"content": "<date>"}], renderedRole="system")
    said = [{"role": "user", "content": "go"}, {"role": reminder_role, "content": "<date>"}]
    rows.bare("api-request-blob", hash=message_hash(said[1]), message=said[1])
    rows.bare("api-request", id="q1", keep=0, tail=[message_hash(m) for m in said], params={"model": "m-1", "max_tokens": 9})
    rows.answer("a1", "g1", call("c1"), requestRef="q1")
    rows.result("r1", "c1", "one")
    said = [
        {"role": "assistant", "content": [call("c1")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "one"}]},
    ]
    rows.bare("api-request", id="q2", base="q1", keep=2, tail=[message_hash(m) for m in said])
    rows.answer("a2", "g2", "done", requestRef="q2")
    return rows


def test_a_recorded_request_is_taken_as_it_was_sent_whatever_the_rules_say(path: Path) -> None:
    session = opened(recorded_rows("system"), path)
    assert [step.basis for step in session.steps] == ["recorded", "recorded"]
    assert words(session, 1) == [("user", "go"), ("system", "<date>")]
    assert words(session, 2) == [("user", "go"), ("system", "<date>"), ("assistant", "c1"), ("user", ("c1", "one"))]
    assert session.request(step=2).pieces[0].sources == ("u1",)
    assert session.request(step=1).body["max_tokens"] == 9


def test_verify_says_where_a_recorded_request_is_not_what_the_rows_give(path: Path) -> None:
    found = opened(recorded_rows("system"), path).verify()
    assert [check.state for check in found.checks] == ["different", "different"]
    assert not found.ok
    parting = found.checks[0].parting
    assert parting is not None
    assert (parting.message, parting.sources) == (0, ("t1", "u1"))


def test_verify_finds_the_rows_to_give_what_was_recorded(path: Path) -> None:
    from nova_nb.foreign.claude_code.recorded import message_hash

    rows = Rows(version="2.1.332")
    rows.user("u1", "go")
    rows.bare("api-request", id="q1", keep=0, tail=[message_hash({"role": "user", "content": "go"})])
    rows.answer("a1", "g1", "done", requestRef="q1")
    rows.bare("api-request", id="q2", base="gone", keep=1, tail=[])
    found = opened(rows, path).verify()
    assert [check.state for check in found.checks] == ["same", "not derived"]
    assert found.ok


def test_a_hash_without_a_message_makes_a_recorded_request_partial(path: Path) -> None:
    rows = recorded_rows("system")
    rows.rows = [row for row in rows.rows if row["type"] != "api-request-blob"]
    request = opened(rows, path).request(step=1)
    assert request.basis == "partial"
    assert "hash" in request.unknown[-1]
    assert [m["role"] for m in request.messages] == ["user"]


def test_without_request_rows_the_place_of_system_reminders_is_said_to_be_unknown(path: Path) -> None:
    rows = recorded_rows("system")
    rows.rows = [row for row in rows.rows if not row["type"].startswith("api-request")]
    session = opened(rows, path)
    assert session.steps[0].basis == "partial"
    assert "depends on the model" in session.request(step=1).unknown[0]


def test_other_jsonl_files_in_the_folder_are_no_sessions(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_bytes(nova.examples.path("claude-code-short").read_bytes())
    (tmp_path / "dataset.jsonl").write_text('{"prompt": "x"}\n')  # newer than the session
    (tmp_path / "broken.jsonl").write_bytes(bytes(4096))
    assert [info.session_id for info in nova.list_sessions(tmp_path)] == ["session"]
    assert nova.open_session(tmp_path).steps
