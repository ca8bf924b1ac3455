"""The order of events in a turn, and that a log is whole wherever a turn ends."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import nova_nb as nova
from nova_nb.agent import loop
from nova_nb.errors import ModelUnavailable
from nova_nb.history.events import MessageAppended, Note, PromptSet, ReplyReceived, RequestSent, ToolResultExternalized, Usage
from nova_nb.models.base import Delta, Reply
from tests.agent.scripted import call, calls, kinds


def results(kernel) -> list[dict]:
    return [b for e in kernel.live.events if isinstance(e, MessageAppended) and e.origin == "tool" for b in e.content]


def request_is_whole(kernel) -> None:
    """Each call has one result, in the message after it; the session read back from disk gives the same request."""
    request = kernel.session.request()
    open_: list[str] = []
    for message in request.messages:
        answered = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert answered == open_
        open_ = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
    assert open_ == []
    assert nova.open_session(kernel.live.directory).request().canonical == request.canonical


async def test_a_turn_records_each_fact_before_what_rests_on_it(make):
    kernel = make(calls(call("t1", "read_file", path="src/orders.py")), "It adds up.")
    answer = await kernel.ask("What does it do?")
    assert str(answer) == "It adds up."
    assert (answer.steps, answer.tool_calls, answer.usage) == (2, 1, Usage(input=200, output=20))
    assert kinds(kernel) == [
        "SessionStarted", "MessageAppended:person", "RuntimeStateCheckpointed", "PromptSet", "RequestSent:main",
        "MessageAppended:model", "ReplyReceived", "ToolStarted", "MessageAppended:tool", "RuntimeStateCheckpointed",
        "RequestSent:main", "MessageAppended:model", "ReplyReceived",
    ]  # fmt: skip


async def test_every_request_that_was_sent_is_derived_again_from_the_log(make):
    kernel = make(calls(call("t1", "search", pattern="sum")), "One.", calls(call("t2", "list_files")), "Two.")
    await kernel.ask("one")
    await kernel.ask("two")
    read = nova.open_session(kernel.live.directory)
    for sent in (e for e in kernel.live.events if isinstance(e, RequestSent)):
        body = kernel.model.bodies[sent.step - 1]
        assert read.request(sent.step).hash == kernel.session.request(sent.step).hash == sent.hash
        assert [m["role"] for m in body["messages"]] == [m["role"] for m in read.request(sent.step).messages]


async def test_a_request_begins_with_the_bytes_of_the_one_before(make):
    kernel = make(calls(call("t1", "list_files")), "One.", "Two.")
    await kernel.ask("one")
    await kernel.ask("two")
    sent = [e for e in kernel.live.events if isinstance(e, RequestSent)]
    assert [e.prefix_bytes for e in sent] == [0, *(e.total_bytes for e in sent[:-1])]
    assert sum(isinstance(e, PromptSet) for e in kernel.live.events) == 1


async def test_the_cached_block_holds_nothing_of_the_project_and_the_marks_leave_the_log_alone(make):
    kernel = make("Hello.")
    await kernel.ask("hi")
    body = kernel.model.bodies[0]
    assert "cache_control" in body["system"][0]
    assert "ws" in body["system"][1]["text"]
    assert "ws" not in body["system"][0]["text"].split()
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["messages"][-1]["content"][-1]
    assert b"cache_control" not in (kernel.live.directory / "log.jsonl").read_bytes()


async def test_calls_of_one_reply_run_in_their_order_and_come_back_as_one_message(make):
    patch = call("t1", "patch_file", path="src/orders.py", old="sum", new="max")
    kernel = make(calls(patch, call("t2", "read_file", path="src/orders.py")), "Done.")
    await kernel.ask("change it")
    assert [b["tool_use_id"] for b in results(kernel)] == ["t1", "t2"]
    assert "max(rows)" in results(kernel)[1]["content"]
    assert sum(isinstance(e, MessageAppended) and e.origin == "tool" for e in kernel.live.events) == 1


async def test_what_cannot_run_comes_back_as_a_result_and_the_turn_goes_on(make):
    bad = [call("t1", "fly"), {**call("t2", "search"), "input": "text"}, call("t3", "read_file", path="../x")]
    kernel = make(calls(*bad), "I see.")
    assert str(await kernel.ask("go")) == "I see."
    assert [b["is_error"] for b in results(kernel)] == [True, True, True]
    assert "there is no tool 'fly'" in results(kernel)[0]["content"]
    assert kinds(kernel).count("ToolStarted") == 1


async def test_a_command_that_is_not_allowed_does_not_start(make):
    kernel = make(calls(call("t1", "run_command", command="touch made")), "Then not.", permission=["ls"])
    await kernel.ask("go")
    assert "not allowed" in results(kernel)[0]["content"]
    assert "ToolStarted" not in kinds(kernel)
    assert "Note:permission" in kinds(kernel)
    assert not (kernel.agent.workspace.root / "made").exists()


async def test_r3_4_a_large_result_is_written_to_a_file_before_its_message_and_can_be_read_back(make):
    command = "python -c 'print(*range(2000), sep=chr(10))'"
    kernel = make(
        calls(call("t1", "run_command", command=command)),
        calls(call("t2", "read_file", path="tool-results/t1.txt", offset=1999)),
        calls(call("t3", "read_file", path="tool-results/t1.txt")),
        "Read.",
        settings="workshop",
    )
    await kernel.ask("go")
    preview, part, whole = results(kernel)
    assert preview["content"].startswith("<persisted-output>")
    assert part["content"] == "1998\n1999\n[lines 1999-2000 of 2000]"
    assert len(whole["content"]) > 7_000, "reading back is exempt, or the model would never see the whole"
    stored = [e for e in kernel.live.events if isinstance(e, ToolResultExternalized)]
    assert [e.artifact for e in stored] == ["tool-results/t1.txt"]
    order = kinds(kernel)
    assert order.index("ToolResultExternalized") < order.index("MessageAppended:tool")


async def test_an_interrupt_during_a_command_ends_it_and_answers_every_open_call(make):
    three = [call("t1", "list_files"), call("t2", "run_command", command="touch begun; sleep 300"), call("t3", "list_files")]

    async def speak(on_delta):
        on_delta(Delta("text", "I start."))
        return calls(*three)

    kernel = make(speak, "Never said.", "Next turn.")
    run = kernel.start("go")
    while not (kernel.agent.workspace.root / "begun").exists():
        await asyncio.sleep(0.01)
    run.interrupt()
    answer = await run
    assert answer.interrupted
    first, second, third = results(kernel)
    assert first["content"] == "src/orders.py"
    assert "was running" in second["content"]
    assert "was not run" in third["content"]
    assert kinds(kernel)[-3:] == ["MessageAppended:tool", "RuntimeStateCheckpointed", "Note:interrupt"]
    assert kernel.live.events[-1].meta == {}, "what was heard is in the log as a message"
    request_is_whole(kernel)
    kernel.model.script.pop(0)
    assert str(await kernel.ask("go on")) == "Next turn."


async def test_an_interrupt_while_the_model_speaks_keeps_what_was_heard_as_a_note(make):
    async def slow(on_delta):
        on_delta(Delta("text", "I was about"))
        await asyncio.sleep(60)

    kernel = make(slow, "Again.")
    run = kernel.start("go")
    await asyncio.sleep(0.01)
    run.interrupt()
    assert (await run).interrupted
    note = kernel.live.events[-1]
    assert isinstance(note, Note)
    assert (note.kind, note.meta) == ("interrupt", {"partial": "I was about"})
    request_is_whole(kernel)
    assert str(await kernel.ask("go on")) == "Again."
    assert "partial" not in str(kernel.model.bodies[-1])


async def test_an_interrupt_while_a_person_is_asked_starts_nothing(make):
    kernel = make(calls(call("t1", "run_command", command="touch made")), permission=lambda _request: asyncio.sleep(60))
    run = kernel.start("go")
    await asyncio.sleep(0.01)
    run.interrupt()
    assert (await run).interrupted
    assert "was not run" in results(kernel)[0]["content"]
    assert "ToolStarted" not in kinds(kernel)
    request_is_whole(kernel)


@pytest.mark.parametrize("ticks", range(1, 12))
async def test_wherever_an_interrupt_falls_the_log_is_whole(make, ticks: int):
    kernel = make(calls(call("t1", "search", pattern="sum")), calls(call("t2", "list_files")), "End.", "After.")
    run = kernel.start("go")
    for _ in range(ticks):
        await asyncio.sleep(0)
    await asyncio.sleep(0.004 * (ticks > 6) * ticks)
    run.interrupt()
    await asyncio.wait({run._task})
    request_is_whole(kernel)
    kernel.model.script[:] = ["After."]
    assert str(await kernel.ask("go on")) == "After."


async def test_a_provider_that_does_not_answer_is_an_event_and_an_error_and_the_next_turn_goes_on(make):
    kernel = make(ModelUnavailable("overloaded (529) after 3 tries; ask again later"), "Back again.")
    with pytest.raises(ModelUnavailable, match="ask again later"):
        await kernel.ask("go")
    assert kinds(kernel)[-2:] == ["RequestSent:main", "Failure:provider"]
    assert str(await kernel.ask("go")) == "Back again."
    assert [m["role"] for m in kernel.model.bodies[-1]["messages"]] == ["user", "user"]


async def test_a_call_that_the_output_limit_cut_off_is_not_run(make):
    cut = Reply([call("t1", "write_file", path="half.txt", content="ha")], "max_tokens", Usage())
    kernel = make(cut, "Again, shorter.")
    await kernel.ask("go")
    assert results(kernel)[0]["is_error"]
    assert not (kernel.agent.workspace.root / "half.txt").exists()


async def test_a_turn_in_circles_is_stopped_and_says_so(make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "MAX_STEPS", 3)
    kernel = make(*(calls(call(f"t{i}", "list_files")) for i in range(5)))
    answer = await kernel.ask("go")
    assert (answer.steps, answer.ended) == (3, "step_limit")
    assert "step limit" in repr(answer)
    request_is_whole(kernel)


async def test_hooks_run_before_each_request_and_may_append(make):
    kernel = make(calls(call("t1", "list_files")), "Done.")

    async def remind(agent):
        agent.say("user", [{"type": "text", "text": f"reminder {agent.next_step}"}], "nova")

    kernel.agent.before_request.append(remind)
    await kernel.ask("go")
    assert [b["messages"][-1]["content"][0]["text"] for b in kernel.model.bodies] == ["reminder 1", "reminder 2"]


async def test_an_empty_reply_ends_the_turn_and_leaves_a_request_that_can_be_sent(make):
    kernel = make(Reply([], "end_turn", Usage()), "Now.")
    assert str(await kernel.ask("go")) == ""
    assert [e.message for e in kernel.live.events if isinstance(e, ReplyReceived)] == [None]
    assert str(await kernel.ask("again")) == "Now."


async def test_a_tool_that_breaks_is_an_event_and_a_result_and_the_turn_goes_on(make):
    async def broken(_input, _workspace):
        raise ZeroDivisionError("by zero")

    kernel = make(calls(call("t1", "list_files")), "Another way, then.")
    kernel.agent.tools = {"list_files": msgspec.structs.replace(kernel.agent.tools["list_files"], run=broken)}
    assert str(await kernel.ask("go")) == "Another way, then."
    assert "Failure:tool" in kinds(kernel)
    assert results(kernel)[0]["content"] == "list_files broke: ZeroDivisionError: by zero"


async def test_a_policy_that_breaks_is_the_persons_to_see_and_leaves_a_whole_log(make):
    kernel = make(calls(call("t1", "run_command", command="ls")), "After.", permission=lambda _request: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await kernel.ask("go")
    assert str(await kernel.ask("go on")) == "After."
    request_is_whole(kernel)
