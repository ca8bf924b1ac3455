"""Runtime state: checkpointed when it changes, restored, and what differs is told once."""

from __future__ import annotations

import subprocess

from nova_nb.history import library, runtime
from nova_nb.history.events import Note, RuntimeStateCheckpointed, ToolStarted
from nova_nb.history.runtime import RuntimeState

from .helpers import say, session
from .worlds import World


def checkpoints(live):
    return [e for e in live.events if isinstance(e, RuntimeStateCheckpointed)]


def test_a_checkpoint_is_made_only_when_something_changed(tmp_path):
    live = session(tmp_path, "one")
    state = RuntimeState(mode="work", skills=("review",), permissions=("pytest *",), memory=("NOVA.md@1a2b",), mcp="EAGER")
    state = state.with_tool("read").with_tool("run").with_tool("read")
    assert runtime.checkpoint(live, state) is not None
    assert runtime.checkpoint(live, state) is None
    live.close()
    back = library.resume(live.session_id, tmp_path)
    assert runtime.restore(back, tmp_path) == (state, [])
    assert state.tools == ("read", "run")
    assert len(checkpoints(back)) == 1


def test_the_state_survives_a_compaction_and_a_resume_from_the_end(tmp_path):
    world = World(tmp_path)
    world.call(1)
    runtime.checkpoint(world.live, RuntimeState(mode="plan"))
    world.call(2)
    world.compact(3)
    world.ask(1)
    world.resume(0)
    assert not world.live.whole
    assert runtime.restore(world.live, tmp_path)[0].mode == "plan"


def test_files_read_last_are_kept_in_order_and_bounded(tmp_path):
    state = RuntimeState()
    for n in [*range(30), 15]:
        (tmp_path / f"f{n}").write_text(str(n))
        state = state.with_file(runtime.file_read(tmp_path / f"f{n}", tmp_path))
    assert [f.path for f in state.files][-2:] == ["f29", "f15"]
    assert len(state.files) == runtime.FILES


def test_what_changed_since_is_one_event_and_said_once(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    (work / "a.py").write_text("one")
    (work / "b.py").write_text("two")
    live = session(tmp_path, "one")
    state = runtime.here(RuntimeState(), work, work)
    for name in ("a.py", "b.py"):
        state = state.with_file(runtime.file_read(work / name, work))
    runtime.checkpoint(live, state)
    assert runtime.differences(state, work) == []
    subprocess.run(["git", "-C", str(work), "symbolic-ref", "HEAD", "refs/heads/other"], check=True)
    (work / "a.py").write_text("changed")
    (work / "b.py").unlink()
    assert runtime.restore(live, work)[0] == state
    note = live.last(Note, "runtime_differs")
    assert [(d["what"], d["name"], d["now"] == "") for d in note.meta["differences"]] == [
        ("branch", "", False),
        ("file", "a.py", False),
        ("file", "b.py", True),
    ]
    runtime.restore(live, work)
    assert sum(isinstance(e, Note) for e in live.events) == 1


def test_a_linked_worktree_has_its_own_branch(tmp_path):
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(tmp_path / "main")]
    (tmp_path / "main").mkdir()
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side")], check=True)
    (tmp_path / "side" / "deep").mkdir()
    assert runtime.git_place(tmp_path / "side" / "deep") == ("side", str(tmp_path / "side"))
    assert runtime.git_place(tmp_path / "main") == ("main", str(tmp_path / "main"))


def test_a_directory_that_is_gone_and_a_state_that_is_no_state_are_no_faults(tmp_path):
    live = session(tmp_path, "one")
    live.append(RuntimeStateCheckpointed(id="r1", state={"cwd": str(tmp_path / "gone"), "colour": "blue"}))
    state, _ = runtime.restore(live, tmp_path / "gone")
    assert live.last(Note, "runtime_differs").meta["differences"][0] == {
        "what": "cwd", "name": "", "recorded": state.cwd, "now": "",
    }  # fmt: skip
    live.append(RuntimeStateCheckpointed(id="r2", state={"files": "hostile"}))
    assert runtime.restore(live, tmp_path) == (RuntimeState(), [])


def test_calls_without_a_result_are_reported_once_and_never_run(tmp_path):
    world = World(tmp_path)
    world.parallel(1)
    say(world.live, "go on")
    calls = [{"type": "tool_use", "id": i, "name": "run", "input": {}} for i in ("toolu_a", "toolu_b")]
    world.say("assistant", calls)
    world.live.append(ToolStarted(id="t9", tool_use_id="toolu_a", name="run"))
    name = world.live.session_id
    for _ in range(2):
        world.live.close()
        world.live = library.resume(name, tmp_path)
    notes = [e for e in world.live.events if isinstance(e, Note) and e.kind == "open_calls"]
    assert [n.meta["calls"] for n in notes] == [
        [
            {"id": "toolu_a", "name": "run", "state": "unknown after crash"},
            {"id": "toolu_b", "name": "run", "state": "never started"},
        ]
    ]


def test_a_call_answered_on_another_branch_is_no_crash(tmp_path):
    world = World(tmp_path)
    world.call(1)
    call = next(n.id for n in world.live.chain if n.content[-1]["type"] == "tool_use")
    world.live.rewind(call)
    world.live.close()
    back = library.resume(world.live.session_id, tmp_path)
    assert not [e for e in back.events if isinstance(e, Note)]
