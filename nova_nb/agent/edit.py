"""What a person does to the request by hand: fold, clip, undo, compact now.

Knows: how each becomes an event. Does not know what a fold or a clip looks like in a request (`projection`). Nothing
is removed: messages stay in the log and on the screen, and a commit can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from ..errors import ModelError, UsageError
from ..history.events import Failure, Note, ProjectionCommitted, ProjectionUndone
from ..projection.calls import grouped
from ..projection.compaction import request_for
from ..projection.fold import placeholder, summarised, widen
from ..projection.summary import refusal
from .agent import Agent
from .compact import ask, compact


def commit(
    agent: Agent, action: str, messages: Collection[str], text: str, reason: str, meta: dict[str, Any] | None = None
) -> str:
    """Append a "fold" or "clip" of these messages, widened to whole protocol units; returns its id."""
    request = agent.projector.request()
    targets = widen(grouped(request.pieces), messages)
    if action == "fold" and not text.strip():
        text = placeholder([p for p in request.pieces if p.sources[0] in targets], agent.settings)
    more = {"prefix": request.hash, "policy": f"{action}/1", "leaf": agent.live.head}
    return agent.record(ProjectionCommitted, action=action, targets=targets, text=text, reason=reason, meta=meta or {}, **more)


async def summarise(agent: Agent, messages: Collection[str], focus: str) -> str | None:
    """A fold whose text the model writes, which is shown just these messages; None if the person interrupted it.

    Raises ModelError where no text came that may stand for them: nothing is folded, and the log says why.
    """
    request = agent.projector.request()
    targets = widen(grouped(request.pieces), messages)
    run = [p for p in request.pieces if p.sources[0] in targets]
    try:
        asked, summary = await ask(agent, request_for(agent.settings, focus), only=targets)
        text = summarised(run, summary, agent.model.name)
        chars = sum(p.chars for p in run)
        why = refusal(summary, chars) or refusal(text, chars)
    except (ModelError, TimeoutError) as error:
        why = str(error) or f"no summary within {agent.settings.summary_timeout_seconds:g} s"
    except (asyncio.CancelledError, KeyboardInterrupt):
        agent.record(Note, kind="interrupt", message="the person interrupted the fold")
        return None
    if why is not None:
        agent.record(Failure, part="fold", message=why)
        raise ModelError(f"nothing was folded: {why}; give the text yourself with kernel.fold(messages, text)")
    return commit(agent, "fold", targets, text, f"folded by the person, summarised by {agent.model.name}", {"request": asked})


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
