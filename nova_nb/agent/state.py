"""What an agent stands on beside the conversation: followed while tools run, in the log when it changed (R6.3).

Knows: which call changes which part, and when a checkpoint is due: at the start of a turn and after each batch of
results, never in between. Does not know what a checkpoint holds or how a later start is compared with it
(`history.runtime`). No byte of a request depends on it. A file that only a command read or wrote is not seen.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..history import runtime
from ..history.events import Block
from .agent import Agent
from .tools import PatchFile, ReadFile, Result, WriteFile
from .workspace import ToolFailure


def used(agent: Agent, call: Block, result: Result) -> None:
    """Take in a call that ran. A file that the agent has read and now writes itself has not changed behind its back."""
    state = agent.state.with_tool(call["name"])
    path = call["input"].get("path")
    changes = call["name"] in (WriteFile.name, PatchFile.name)
    if isinstance(path, str) and not result.is_error and (changes or call["name"] == ReadFile.name):
        try:
            file = runtime.file_read(agent.workspace.file(path), agent.workspace.root)
        except (ToolFailure, OSError):
            file = None
        known = file is not None and any(f.path == file.path for f in state.files)
        if file is not None and (known or not changes) and not agent.workspace.stored(path):
            state = state.with_file(file)
    agent.state = state


def granted(agent: Agent, command: str) -> None:
    """A person allowed a command for the session."""
    if command not in agent.state.permissions:
        agent.state = replace(agent.state, permissions=(*agent.state.permissions, command))


def checkpoint(agent: Agent) -> None:
    """Append the state as one event, if it is another than the log holds."""
    agent.state = runtime.here(agent.state, agent.workspace.root, agent.workspace.root)
    if agent.state != agent.checkpointed:
        runtime.checkpoint(agent.live, agent.state)
        agent.checkpointed = agent.state
