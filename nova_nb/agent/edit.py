"""What a person does to the request by hand: fold, clip, undo, compact now.

Knows: how each becomes an event. Does not know what a fold or a clip looks like in a request (`projection`). Nothing
is removed: messages stay in the log and on the screen, and a commit can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from ..errors import UsageError
from ..history.events import Note, ProjectionCommitted, ProjectionUndone
from ..projection.calls import grouped
from ..projection.fold import placeholder, widen
from .agent import Agent
from .compact import compact


def commit(agent: Agent, action: str, messages: Collection[str], text: str, reason: str) -> str:
    """Append a "fold" or "clip" of these messages, widened to whole protocol units; returns its id."""
    request = agent.projector.request()
    targets = widen(grouped(request.pieces), messages)
    if action == "fold" and not text.strip():
        text = placeholder([p for p in request.pieces if p.sources[0] in targets], agent.settings)
    more = {"prefix": request.hash, "policy": f"{action}/1", "leaf": agent.live.head}
    return agent.record(ProjectionCommitted, action=action, targets=targets, text=text, reason=reason, **more)


def undo(agent: Agent, commit: str) -> None:
    """Take a commit back. Raises UsageError, with those in force, for one that is not."""
    known = [c.id for c in agent.projector.commits]
    if commit not in known:
        raise UsageError(f"there is no commit {commit!r} in force here; there are {', '.join(known) or 'none'}")
    agent.record(ProjectionUndone, commit=commit, leaf=agent.live.head)


async def compact_now(agent: Agent, focus: str) -> bool:
    """A compaction that a person asked for. An interrupt leaves everything as it was, and a note."""
    try:
        return await compact(agent, "manual", focus)
    except (asyncio.CancelledError, KeyboardInterrupt):
        agent.record(Note, kind="interrupt", message="the person interrupted the compaction")
        return False
