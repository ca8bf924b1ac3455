"""The state beside the conversation: followed, in the log when it changed, compared at a resume."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import nova_nb as nova
from nova_nb.agent.kernel import AgentKernel
from nova_nb.agent.permissions import Decision, PermissionRequest
from nova_nb.history.events import Note, RuntimeStateCheckpointed, ToolStarted
from nova_nb.ids import Fixed
from tests.agent.scripted import Scripted, call, calls, kinds


def states(kernel: AgentKernel) -> list[dict[str, Any]]:
    return [e.state for e in kernel.live.events if isinstance(e, RuntimeStateCheckpointed)]


def names(state: dict[str, Any]) -> list[str]:
    return [file["path"] for file in state.get("files", [])]


def again(kernel: AgentKernel, *script: Any, **options: Any) -> AgentKernel:
    kernel.close()
    options = {"permission": "allow", "home": kernel.live.directory.parents[1], "ids": Fixed(start=2e9), **options}
    return AgentKernel.resume(kernel.live.session_id, model=Scripted(*script), **options)


def read(id: str, path: str = "src/orders.py") -> dict[str, Any]:
    return call(id, "read_file", path=path)


async def test_a_batch_of_calls_is_one_checkpoint_and_a_turn_that_changes_nothing_is_none(make: Any, tmp_path: Path):
    (tmp_path / "ws" / "a.txt").write_text("a")
    batch = calls(read("t1"), read("t2", "a.txt"), call("t3", "search", pattern="x"))
    kernel = make(batch, "Done.", "Nothing to do.", calls(call("t4", "search", pattern="y")), "Done.")
    await kernel.ask("go")
    place, after = states(kernel)
    assert place == {"mode": "allow", "cwd": "."}
    assert names(after) == ["src/orders.py", "a.txt"]
    assert after["tools"] == ["read_file", "search"]
    log = kinds(kernel)
    assert log[:2] == ["SessionStarted", "MessageAppended:person"]
    assert [i for i, kind in enumerate(log) if kind == "RuntimeStateCheckpointed"] == [2, log.index("MessageAppended:tool") + 1]
    await kernel.ask("and?")
    await kernel.ask("search again")
    assert len(states(kernel)) == 2


async def test_no_request_depends_on_it(make: Any):
    kernel = make(calls(read("t1")), "One.", calls(call("t2", "list_files")), "Two.")
    await kernel.ask("go")
    await kernel.ask("more")
    sent = [e for e in kernel.session.log.events if type(e).__name__ == "RequestSent"]
    assert [e.prefix_bytes for e in sent[1:]] == [e.total_bytes for e in sent[:-1]]
    assert kernel.session.verify().ok


async def test_what_an_agent_wrote_itself_has_not_changed_behind_its_back(make: Any):
    patch = call("t2", "patch_file", path="src/orders.py", old="sum(rows)", new="len(rows)")
    new = call("t3", "write_file", path="new.py", content="x = 1\n")
    kernel = make(calls(read("t1"), patch, new), "Done.")
    await kernel.ask("go")
    assert names(states(kernel)[-1]) == ["src/orders.py"]
    assert again(kernel).notices == ()


async def test_a_stored_result_and_a_failed_read_are_no_files_read(make: Any):
    big = call("t1", "run_command", command="seq 20000")
    kernel = make(calls(big), calls(read("t2", "tool-results/t1.txt"), read("t3", "gone.py")), "Done.")
    await kernel.ask("go")
    assert "files" not in states(kernel)[-1]
    assert states(kernel)[-1]["tools"] == ["run_command", "read_file"]


async def test_a_resume_with_nothing_changed_says_nothing_and_writes_nothing(make: Any):
    kernel = make(calls(read("t1")), "Done.")
    await kernel.ask("go")
    before = (kernel.live.directory / "log.jsonl").read_bytes()
    back = again(kernel, "Two.")
    assert back.notices == ()
    assert back.agent.state.tools == ("read_file",)
    assert (back.live.directory / "log.jsonl").read_bytes() == before
    await back.ask("more")
    assert len(states(back)) == 2
    assert "1 files read last, 1 tools used" in back.session.replay("resume").frames[-1].text


async def test_a_resume_in_a_changed_workspace_tells_the_person_once_and_the_model_nothing(make: Any, tmp_path: Path):
    root = tmp_path / "ws"
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    (root / "a.txt").write_text("a")
    kernel = make(calls(read("t1"), read("t2", "a.txt")), "Done.")
    await kernel.ask("go")
    before = kernel.session.request().canonical
    (root / "src" / "orders.py").write_text("changed = 1\n")
    (root / "a.txt").unlink()
    subprocess.run(["git", "-C", str(root), "symbolic-ref", "HEAD", "refs/heads/fix"], check=True)
    back = again(kernel, "Two.", "Three.")
    assert back.notices == (
        "branch: was main, is fix",
        "src/orders.py changed since it was read",
        "a.txt is gone since it was read",
    )
    assert [e.kind for e in back.live.events if isinstance(e, Note)] == ["runtime_differs"]
    assert "[resumed: a.txt is gone since it was read]" in repr(back)
    assert back.session.request().canonical == before
    answer = await back.ask("more")
    assert answer.notices == back.notices
    assert "[resumed: branch: was main, is fix]" in repr(answer)
    assert (await back.ask("and?")).notices == ()
    third = again(back)
    assert [d for d in third.notices if "branch" in d] == []
    assert sum(e.kind == "runtime_differs" for e in third.live.events if isinstance(e, Note)) == 2
    assert third.session.verify().ok


async def test_a_workspace_that_moved_as_a_whole_is_no_difference(make: Any, tmp_path: Path):
    kernel = make(calls(read("t1")), "Done.")
    await kernel.ask("go")
    kernel.close()
    (tmp_path / "ws").rename(tmp_path / "moved")
    back = again(kernel, workspace=tmp_path / "moved")
    assert back.notices == ()
    assert [file.path for file in back.agent.state.files] == ["src/orders.py"]


async def test_calls_that_a_crash_left_open_are_told_with_the_first_answer(make: Any):
    kernel = make("One.", "Two.")
    await kernel.ask("go")
    kernel.agent.say("assistant", [call("t1", "run_command", command="make")], "model")
    kernel.agent.record(ToolStarted, tool_use_id="t1", name="run_command")
    back = again(kernel, "Two.")
    assert back.notices == ("run_command (t1): unknown after crash; nothing was run again",)
    assert (await back.ask("go on")).notices == back.notices


async def test_what_was_allowed_for_the_session_comes_back_as_a_fact_and_allows_nothing(make: Any):
    asked: list[PermissionRequest] = []

    def person(request: PermissionRequest) -> Decision:
        asked.append(request)
        return Decision(True, "session", "person")

    run = calls(call("t1", "run_command", command="echo 1"))
    kernel = make(run, "One.", run, "Two.", permission=person)
    await kernel.ask("go")
    await kernel.ask("once more")
    assert states(kernel)[-1]["permissions"] == ["echo 1"]
    back = again(kernel, run, "Three.", permission=person)
    await back.ask("go")
    assert [request.before for request in asked] == [False, True]
    back.close()
    fork = AgentKernel.fork(back.live.directory, model=Scripted(run, "Four."), permission=person)
    with fork:
        await fork.ask("go")
        assert not asked[-1].before


async def test_a_log_that_names_files_elsewhere_opens_none_of_them(make: Any, tmp_path: Path):
    kernel = make("One.")
    await kernel.ask("go")
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("outside")
    paths = ["/dev/zero", "../secret", "link", "a\0b", "\x1b[2J"]
    state = {"files": [{"path": path, "sha256": "0" * 64} for path in paths], "permissions": ["rm -rf ~"]}
    kernel.agent.record(RuntimeStateCheckpointed, state=state)
    back = again(kernel, permission="deny")
    assert back.notices == ("'a\\x00b' is gone since it was read", "'\\x1b[2J' is gone since it was read")


async def test_r5_4_files_read_before_the_last_boundary_come_back_after_the_next(make: Any):
    settings = nova.ContextSettings.model_validate({**nova.settings.settings_from("workshop").model_dump()})
    kernel = make(calls(read("t1")), "ok", "ok", "## Goal\nx", "ok", "ok", "## Goal\ny", settings=settings)
    await kernel.ask("read it " + "x" * 2_500)
    await kernel.ask("note " + "x" * 6_000)
    assert await kernel.compact()
    for _ in range(2):
        await kernel.ask("note " + "x" * 6_000)
    assert await kernel.compact()
    last = [e for e in kernel.live.events if type(e).__name__ == "CompactionBoundaryCreated"][-1]
    assert "<file path='src/orders.py'> as it is now" in last.attachment[0]["text"]
    assert kernel.session.verify().ok


@pytest.mark.parametrize("given", ["allow", ["git log"]])
async def test_another_mode_than_recorded_is_told(make: Any, given: Any):
    kernel = make("One.", permission="deny")
    await kernel.ask("go")
    word = "list" if isinstance(given, list) else given
    assert again(kernel, permission=given).notices == (f"mode: was deny, is {word}",)


async def test_law_9_another_directory_enters_the_log_before_the_request_that_names_it(make: Any, tmp_path: Path):
    kernel = make("One.")
    await kernel.ask("go")
    kernel.close()
    (tmp_path / "ws").rename(tmp_path / "moved")
    back = again(kernel, "Two.", workspace=tmp_path / "moved")
    await back.ask("more")
    log = [kind for kind in kinds(back) if kind in ("PromptSet", "RequestSent:main")]
    assert log == ["PromptSet", "RequestSent:main", "PromptSet", "RequestSent:main"]
    assert "Working directory: moved" in str(back.session.request(step=2).system)
    assert "Working directory: ws" in str(back.session.request(step=1).system)
    assert back.session.verify().ok
