"""State beside the conversation: in the log after tools ran, back at a resume, and what changed is told."""

from __future__ import annotations

from nova_nb.agent.kernel import AgentKernel
from nova_nb.history import runtime
from nova_nb.history.events import Note, RuntimeStateCheckpointed

from .scripted import call, calls


async def test_files_and_tools_are_checkpointed_when_they_change_and_a_change_on_disk_is_told_at_resume(make):
    kernel = make(
        calls(call("t1", "read_file", path="src/orders.py")),
        calls(call("t2", "read_file", path="src/orders.py")),
        calls(call("t3", "write_file", path="src/orders.py", content="TOTAL = 1\n")),
        "Done.",
    )
    await kernel.ask("Look, then write.")
    states = [e.state for e in kernel.live.events if isinstance(e, RuntimeStateCheckpointed)]
    assert len(states) == 2  # reading it again changed nothing
    assert states[-1]["tools"] == ["read_file", "write_file"]
    root, name, home = kernel.agent.workspace.root, kernel.live.session_id, kernel.live.directory.parents[1]
    kernel.close()

    back = AgentKernel.resume(name, home=home, model=kernel.model)
    assert back.live.last(Note, "runtime_differs") is None  # what the agent wrote itself is known to it
    back.close()
    (root / "src/orders.py").write_text("TOTAL = 2\n")
    back = AgentKernel.resume(name, home=home, model=kernel.model)
    note = back.live.last(Note, "runtime_differs")
    assert [(d["what"], d["name"]) for d in note.meta["differences"]] == [("file", "src/orders.py")]
    assert [f.path for f in runtime.recorded(back.live.events).files] == ["src/orders.py"]
    back.close()
