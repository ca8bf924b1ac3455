"""Room in the window: before each request, reclaim what may go and compact when it is due.

Knows: the order of events of a compaction, and what happens when its own request does not fit. Decides
nothing: `projection.reclaim` and `projection.compaction` do, as pure functions, and what they decided
is appended and replayed from then on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..errors import ModelError, OverBudget, PromptTooLong
from ..history.events import Block, Failure, MessageAppended, Note, ProjectionCommitted, ReplyReceived, RequestSent
from ..models.base import Reply
from ..projection import compaction, overflow, reclaim
from ..projection.attachment import last_read
from ..projection.budget import estimate
from ..projection.cache import is_cold, mark
from ..projection.calls import grouped, latest_turn
from ..projection.confidence import check
from ..projection.ledger import Entry
from ..projection.pieces import Piece, messages_of
from ..projection.repair import Message
from ..projection.request import Request
from .agent import Agent
from .workspace import ToolFailure


async def make_room(agent: Agent) -> None:
    """Before each request, inside a turn as well as at its start. Raises OverBudget where compaction was stopped
    because the window refills at once, and the next request would not fit."""
    reclaim_now(agent)
    projector = agent.projector
    tokens = projector.tokens
    due = compaction.due(tokens, agent.settings, projector.health, agent.model.capabilities.window_tokens)
    if due.now:
        await compact(agent, due.trigger)
    else:
        agent.ledger.append(Entry("compaction", why=due.why, tokens_in=tokens, tokens_out=tokens).plain())
    if due.trigger == "stopped":
        what = (
            f"compaction stopped: {due.why}; what fills it: {compaction.refills(projector.projection().pieces, agent.settings)}"
        )
        said = agent.live.last(Note, "compaction-stopped")
        if said is None or said.message != what:
            agent.record(Note, kind="compaction-stopped", message=what)
        if tokens >= projector.budget.hard:
            raise OverBudget(f"{what}. Rewind to before it, fold it, or use a larger window")
    recall(agent)


def reclaim_now(agent: Agent) -> None:
    """Append a reclaim's commit where one pays now."""
    projector, settings = agent.projector, agent.settings
    if projector.tokens < settings.soft_line and not is_cold(projector.last_request_at, agent.live.now(), settings):
        agent.ledger.append(Entry("reclaim", why="the cache is hot and the window does not press").plain())
        return
    request = projector.request()
    cold = is_cold(projector.last_request_at, agent.live.now(), settings)
    found = reclaim.decide(projector.messages, projector.tokens, settings, cold, agent.model.capabilities, projector.calls)
    agent.ledger.append(found.entry.plain())
    if found.targets:
        agent.record(
            ProjectionCommitted,
            action="reclaim",
            targets=found.targets,
            reason=found.reason,
            prefix=request.hash,
            policy=reclaim.POLICY,
            leaf=agent.live.head,
            meta=found.entry.plain(),
        )


async def compact(agent: Agent, trigger: str, focus: str = "") -> bool:
    """Summarise what is old and start the chain anew. False: nothing changed, and the log and the ledger say why."""
    projector, settings, tokens = agent.projector, agent.settings, agent.projector.tokens
    request = projector.request()
    messages = projector.messages
    planned = compaction.plan(messages, settings, agent.model.capabilities.prefix_check, projector.chars)
    if planned.cut is None:
        agent.ledger.append(Entry("compaction", False, trigger, planned.why, tokens, tokens).plain())
        return False
    try:
        summary, meta = await summarise(agent, list(request.pieces), focus)
        contents = _files_now(agent, messages)
        made: Any = compaction.commit(
            planned, summary, messages, settings, leaf=agent.live.head, trigger=trigger, tokens_before=tokens,
            transcript=str(agent.live.directory / "log.jsonl") if agent.live.directory else "",
            tools=list(agent.tools), contents=contents, prefix=request.hash, meta=meta,
        )  # fmt: skip
    except (ModelError, TimeoutError) as error:
        made = str(error) or f"no summary within {settings.summary_timeout_seconds:g} s"
    if isinstance(made, str):
        agent.record(Failure, part="compaction", message=made, meta={"trigger": trigger})
        agent.ledger.append(Entry("compaction", False, trigger, made, tokens, tokens).plain())
        return False
    agent.thoughts.clear()
    agent.live.append(replace(made, id=agent.live.new_id("c"), at=agent.live.now()))
    after = agent.projector.tokens
    agent.ledger.append(
        Entry("compaction", True, trigger, planned.why, tokens, after, len(planned.summarised), True, "boundary", after).plain()
    )
    return True


async def summarise(agent: Agent, pieces: list[Piece], focus: str) -> tuple[str, dict[str, Any]]:
    """A summary by the model on the cached prefix; smaller and smaller where that does not fit; at the end without it."""
    settings, window = agent.settings, agent.model.capabilities.window_tokens
    asked = compaction.request_for(settings, focus)
    room = min(settings.window_tokens, window) - min(settings.summary_max_tokens, settings.output_reserve_tokens)
    room -= settings.safety_tokens + estimate(len(asked["content"][0]["text"]), settings)
    if agent.projector.tokens <= room:
        try:
            return (await ask(agent, asked))[1], {"summary": "model"}
        except PromptTooLong:
            pass
    budget = agent.projector.budget
    limit = min(int(room * 0.8), room) - budget.system - budget.tools
    if overflow.shrink(pieces, limit, settings).fits:
        try:
            return (await ask(agent, asked, limit))[1], {"summary": "model", "shrunk_to": limit}
        except PromptTooLong:
            pass
    return overflow.without_model(pieces, settings), {"summary": "mechanical"}


async def ask(
    agent: Agent, asked: dict[str, Any], shrink_to: int | None = None, only: list[str] | None = None
) -> tuple[str, str]:
    """A summary call: the main request's system, tools and messages (of a fold: only what it folds), and one instruction
    after them. The request's id and the answer's text."""
    step, model = agent.next_step, agent.model
    kind = "compact" if only is None else "fold"
    request = agent.projector.request(step=step, kind=kind, model=model.name)
    meta: dict[str, Any] = {"append": [asked]}
    messages, wire = request.messages, agent.with_thoughts(request)
    if only is not None:
        wire = messages = messages_of(overflow.alone(request.pieces, only))
        meta["only"] = only
    if shrink_to is not None:
        wire = messages = messages_of(overflow.shrink(list(request.pieces), shrink_to, agent.settings).pieces)
        meta["shrink_to"] = shrink_to
    whole = Request([*messages, asked], request.system, request.tools, kind=kind)
    id = agent.record(
        RequestSent, step=step, kind=kind, leaf=agent.live.head, hash=whole.hash, total_bytes=len(whole.canonical),
        prefix_bytes=(request.prefix_bytes or 0) if messages is request.messages else 0, tokens=agent.projector.tokens, model=model.name,
        prompt=agent.projector.prompt.id if agent.projector.prompt else None, policy=compaction.POLICY, meta=meta,
    )  # fmt: skip
    body = {
        "model": model.name,
        "max_tokens": min(
            agent.settings.summary_max_tokens, agent.settings.output_reserve_tokens, model.capabilities.max_output_tokens
        ),
        **mark(
            {"system": whole.system, "tools": whole.tools, "messages": [*wire, asked]}, model.capabilities.cache_breakpoints
        ),
    }
    try:
        reply: Reply = await asyncio.wait_for(model.send(body), agent.settings.summary_timeout_seconds)
    except ModelError as error:
        agent.record(Failure, part="provider", message=str(error), meta={"request": id, "error": type(error).__name__})
        raise
    agent.record(ReplyReceived, request=id, usage=reply.usage, stop_reason=reply.stop_reason, meta=reply.meta)
    return id, "\n\n".join(b["text"] for b in reply.content if b.get("type") == "text")


def recall(agent: Agent) -> None:
    """The confidence check: where the task names what the summary lost, its original passage comes back (R5.7)."""
    projector = agent.projector
    last = projector.chain[-1] if projector.chain else None
    asked = isinstance(last, MessageAppended) and last.origin == "person"
    if projector.boundary is None or not (asked or projector.just_compacted):
        return
    pieces = projector.projection().pieces
    messages = grouped(pieces)
    task: list[Block] = [p.block for p in messages[latest_turn(messages)] if p.block.get("type") == "text"] if messages else []
    text = "\n".join(b["text"] for b in task)
    others = [p for p in pieces if p.block not in task]
    found = check(text, others, projector.behind(), agent.settings)
    if found.text:
        content: list[Block] = [{"type": "text", "text": found.text}]
        agent.say(
            "user", content, "nova", meta={"state": "memory", "reason": "confidence check", "sources": list(found.sources)}
        )


def _files_now(agent: Agent, messages: list[Message]) -> dict[str, str]:
    """The files read last as they are on the disk, the newest first: those the request shows, then those read before its
    boundary, which only the runtime state remembers. One that is gone or no text comes back as it was read, if at all."""
    shown = [call.path for call in last_read(messages, agent.settings.attachment_files)]
    out: dict[str, str] = {}
    real: set[Path] = set()
    for path in (*shown, *(file.path for file in reversed(agent.state.files))):
        try:
            file = agent.workspace.file(path)
            if file not in real and len(real) < agent.settings.attachment_files:
                real.add(file)
                out[path] = file.read_text("utf-8")
        except (ToolFailure, OSError, UnicodeDecodeError):
            continue
    return out
