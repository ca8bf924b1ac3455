"""The agent's state beside the conversation, in the log: checkpointed after tools ran, restored at a resume.

Knows: which calls of a batch read a file and which tools ran. Does not know how states are stored
or compared (`history.runtime`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..history import runtime
from ..history.events import Block
from ..projection.portable import carry_over
from .agent import Agent
from .workspace import ToolFailure

READ = "read_file"
WRITES = ("write_file", "patch_file")


def checkpoint(agent: Agent, calls: Sequence[Block]) -> None:
    """Log the state after these calls ran, when it differs from the last checkpoint.

    A file that was read and then written by the agent counts as known as it is now; one that a
    command changed does not.
    """
    root = agent.workspace.root
    state = runtime.recorded(agent.live.events) or runtime.RuntimeState()
    for call in calls:
        if call["name"] not in agent.tools or not isinstance(call.get("input"), dict):
            continue
        state = state.with_tool(call["name"])
        try:
            path = agent.workspace.file(str(call["input"].get("path", "")))
            file = runtime.file_read(path, root) if path.is_relative_to(root) else None
        except (ToolFailure, OSError):
            continue  # no file, or one that could not be read: the call's own result says so
        known = file is not None and any(f.path == file.path for f in state.files)
        if file is not None and (call["name"] == READ or (known and call["name"] in WRITES)):
            state = state.with_file(file)
    runtime.checkpoint(agent.live, runtime.here(state, root, root))


def restore(agent: Agent) -> None:
    """For a resume or a fork: what changed meanwhile enters the log, and what another model cannot be sent is left out."""
    runtime.restore(agent.live, agent.workspace.root)
    carry_over(agent.live, agent.projector, agent.model.name)
