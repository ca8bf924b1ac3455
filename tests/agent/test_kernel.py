"""The kernel in a notebook and in a script: start, watch, resume, fork, rewind, close."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.errors import ModelRefused, UsageError
from nova_nb.history.events import PromptSet, RequestSent
from nova_nb.models.base import Delta
from tests.agent.scripted import Scripted, call, calls


async def test_a_started_turn_works_while_the_cell_has_returned(make):
    kernel = make(calls(call("t1", "list_files")), "Done.")
    run = kernel.start("go")
    assert not run.done
    assert "at work" in repr(run)
    assert "at work" in repr(kernel)
    assert str(await run) == "Done."
    assert repr(run) == repr(run.answer) == "Done.\n\n[2 steps · 1 tool call · 200 tokens in · 20 out]"


async def test_one_turn_at_a_time(make):
    kernel = make("One.")
    run = kernel.start("go")
    for act in (lambda: kernel.start("more"), lambda: kernel.rewind("m1")):
        with pytest.raises(UsageError, match="at work"):
            act()
    await run


async def test_the_session_can_be_looked_at_while_the_agent_works(make):
    seen: list[tuple[int, int]] = []

    async def look(_on_delta):
        session = kernel.session
        seen.append((len(session.steps), len(session.request().messages)))
        return "Done."

    kernel = make(calls(call("t1", "list_files")), look)
    await kernel.ask("go")
    assert seen == [(2, 3)]
    read = nova.open_session(kernel.live.directory)
    assert kernel.session.path == read.path
    assert [(e.id, kernel.session.log.line(e.id)) for e in read.log.events] == [
        (e.id, read.log.line(e.id)) for e in read.log.events
    ]


async def test_cancelling_ask_interrupts_the_agent_in_order(make):
    async def slow(_on_delta):
        await asyncio.sleep(60)

    kernel = make(slow)
    task = asyncio.create_task(kernel.ask("go"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kernel.live.events[-1].kind == "interrupt"
    never = kernel.start("go")
    never.interrupt()
    assert (await never).interrupted


async def test_giving_up_waiting_for_a_run_does_not_stop_it(make):
    async def slow(_on_delta):
        await asyncio.sleep(0.05)
        return "Done."

    kernel = make(slow)
    run = kernel.start("go")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run
    assert str(await run) == "Done."


async def test_who_watches_hears_the_reply_arrive_and_cannot_stop_it(make):
    async def speak(on_delta):
        on_delta(Delta("text", "Do"))
        on_delta(Delta("text", "ne."))
        return "Done."

    kernel = make(speak, speak)
    heard: list[str] = []
    stop = kernel.watch(lambda delta: heard.append(delta.text))
    kernel.watch(lambda delta: 1 / 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await kernel.ask("go")
    assert heard == ["Do", "ne."]
    assert ["ZeroDivisionError" in str(w.message) for w in caught] == [True]
    stop()
    await kernel.ask("again")
    assert heard == ["Do", "ne."]


async def test_an_error_nobody_waits_for_is_said_in_one_line(make, capsys):
    kernel = make(ModelRefused("the key is not valid (401); set ANTHROPIC_API_KEY"))
    run = kernel.start("go")
    await asyncio.wait({run._task})
    await asyncio.sleep(0)
    assert capsys.readouterr().err == "the agent stopped: the key is not valid (401); set ANTHROPIC_API_KEY\n"
    assert "ModelRefused" in repr(run)


def test_a_plain_script_needs_no_async(make):
    with make("One.", "Two.") as kernel:
        assert str(kernel.ask_sync("go")) == "One."
        assert str(kernel.ask_sync("go")) == "Two."
        with pytest.raises(UsageError, match="ask_sync"):
            kernel.start("go")


async def test_in_a_notebook_ask_sync_says_what_to_write(make):
    with pytest.raises(UsageError, match=r"await kernel\.ask"):
        make("One.").ask_sync("go")


async def test_resume_gives_the_bytes_it_gave_before_it_was_closed(make, tmp_path: Path):
    kernel = make(calls(call("t1", "list_files")), "One.")
    await kernel.ask("go")
    before, id = kernel.session.request(), kernel.live.session_id
    kernel.close()
    with nova.AgentKernel.resume(id, model=Scripted("Two."), home=tmp_path / "home") as again:
        assert again.session.request().canonical == before.canonical
        assert str(await again.ask("more")) == "Two."
        sent = [e for e in again.session.log.events if isinstance(e, RequestSent)]
        assert [e.step for e in sent] == [1, 2, 3]
        assert sent[2].prefix_bytes == sent[1].total_bytes
        assert sum(isinstance(e, PromptSet) for e in again.session.log.events) == 1


async def test_a_forks_first_request_begins_as_the_parents_did_and_the_parent_stays(make, tmp_path: Path):
    kernel = make("One.", "Two.")
    await kernel.ask("first")
    at = kernel.live.head
    await kernel.ask("second")
    raw = (kernel.live.directory / "log.jsonl").read_bytes()
    fork = nova.AgentKernel.fork(
        kernel.live.session_id, at, model=Scripted("Three."), home=tmp_path / "home", permission="allow"
    )
    with fork:
        parent = kernel.session.request(step=1)
        assert fork.session.request().canonical.startswith(parent.canonical)
        await fork.ask("another second")
        texts = [m["content"][0]["text"] for m in fork.model.bodies[0]["messages"]]
        assert texts == ["first", "One.", "another second"]
    assert (kernel.live.directory / "log.jsonl").read_bytes() == raw


async def test_rewind_makes_a_branch_and_loses_nothing(make):
    kernel = make("One.", "Two.", "Other.")
    await kernel.ask("first")
    at = kernel.live.head
    await kernel.ask("second")
    count = len(kernel.live.events)
    kernel.rewind(at)
    await kernel.ask("other second")
    assert [m["content"][0]["text"] for m in kernel.model.bodies[-1]["messages"]] == ["first", "One.", "other second"]
    assert len(kernel.live.events) > count
    with pytest.raises(UsageError, match="no message 'nope'"):
        kernel.rewind("nope")


async def test_another_model_can_go_on_with_a_session(make, tmp_path: Path):
    kernel = make("One.")
    await kernel.ask("All timestamps are stored in UTC.")
    kernel.close()
    with nova.AgentKernel.resume(kernel.live.directory, model="offline") as again:
        assert "UTC" in str(await again.ask("What did we decide about timestamps?"))
    with pytest.raises(UsageError, match="'scripted' names no model"):
        nova.AgentKernel.resume(kernel.live.directory)


async def test_closing_while_at_work_interrupts_first(make):
    async def slow(_on_delta):
        await asyncio.sleep(60)

    kernel = make(slow)
    run = kernel.start("go")
    await asyncio.sleep(0.01)
    kernel.close()
    assert (await run).interrupted
    await asyncio.sleep(0)
    assert nova.open_session(kernel.live.directory).log.events[-1].kind == "interrupt"
    with pytest.raises(UsageError, match="resume"):
        await kernel.ask("more")


@pytest.mark.parametrize("workspace", ["nowhere", "file.txt"])
def test_a_workspace_that_is_no_folder_is_refused_before_anything_is_made(tmp_path: Path, workspace: str):
    (tmp_path / "file.txt").write_text("")
    with pytest.raises(UsageError, match="folder"):
        nova.AgentKernel(tmp_path / workspace, home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_nothing_to_ask_is_said_and_not_recorded(make, text: str):
    kernel = make()
    with pytest.raises(UsageError, match="nothing to ask"):
        kernel.start(text)
    assert len(kernel.live.events) == 1


def test_where_no_agent_can_run_that_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.platform", "win32")
    for make in (lambda: nova.AgentKernel(tmp_path, home=tmp_path / "home"), lambda: nova.AgentKernel.resume("s1")):
        with pytest.raises(UsageError, match="use WSL"):
            make()
    assert not (tmp_path / "home").exists()
