"""The loop: ask the model, run what it calls, until it calls nothing.

Knows: the order of events in a turn. Does not know how a request is made (`projection`), who
answers (`models`), what a tool does (`tools`), or who is watching. The order is what makes a log
whole at any point: a fact is appended before anything that rests on it, a call is marked as
started before it can have an effect, and an interrupt records what the open calls came to.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from ..errors import ModelError, PromptTooLong
from ..history.events import Block, Event, Failure, Note, PromptSet, ReplyReceived, RequestSent, ToolStarted
from ..history.live import THINKING
from ..models.base import Delta, Reply
from ..projection.cache import mark
from ..projection.project import POLICY
from ..projection.provider_edits import applied, request_fields
from ..projection.spill import budget_results, externalized
from ..projection.verify import block_digests
from . import state
from .agent import Agent
from .answer import Answer
from .compact import compact, recall
from .permissions import PermissionRequest
from .tools import Result

MAX_STEPS = 200
"""a turn that calls the model more often than this is stopped: it goes in circles, and each step costs"""


async def turn(agent: Agent, text: str) -> Answer:
    """One turn: from the person's words to a reply that calls no tool.

    Raises ModelError when the model gives no answer. That is in the log, and so is an interrupt, which is no error:
    the answer then says so. In both cases the next turn goes on from there.
    """
    agent.say("user", [{"type": "text", "text": text}], "person")
    state.checkpoint(agent)
    answer = Answer(notices=agent.notices)
    agent.notices = ()
    heard: list[str] = []
    try:
        for _ in range(MAX_STEPS):
            for hook in agent.before_request:
                await hook(agent)
            reply = await answered(agent, heard)
            calls = [block for block in reply.content if block.get("type") == "tool_use"]
            answer = answer.after(reply, len(calls))
            if calls:
                await run_calls(agent, calls, cut=reply.stop_reason == "max_tokens")
            elif reply.stop_reason != "pause_turn":
                return answer
    except (asyncio.CancelledError, KeyboardInterrupt):
        meta = {"partial": "".join(heard)} if heard else {}
        agent.record(Note, kind="interrupt", message="the person interrupted the agent", meta=meta)
        return replace(answer, ended="interrupted")
    agent.record(Note, kind="step-limit", message=f"the turn was stopped after {MAX_STEPS} steps")
    return replace(answer, ended="step_limit")


async def answered(agent: Agent, heard: list[str]) -> Reply:
    """One step. A request that the provider finds too long is compacted once and sent once more (R4.6), never again."""
    try:
        return await request(agent, heard)
    except PromptTooLong:
        if not await compact(agent, "rejected"):
            raise
        recall(agent)
        return await request(agent, heard)


async def request(agent: Agent, heard: list[str]) -> Reply:
    """One step: send the projection, record the reply. `heard` holds the words that came while it is not recorded."""
    prompt = set_prompt(agent)
    step = agent.next_step
    sending = agent.projector.request(step=step, model=agent.model.name)
    id = agent.record(
        RequestSent,
        step=step,
        leaf=agent.live.head,
        hash=sending.hash,
        prefix_bytes=sending.prefix_bytes,
        total_bytes=sending.total_bytes,
        tokens=agent.projector.tokens,
        model=agent.model.name,
        prompt=prompt,
        policy=POLICY,
        meta={"blocks": block_digests(sending)} | ({"ledger": agent.ledger} if agent.ledger else {}),
    )
    agent.ledger = []
    able = agent.model.capabilities
    body = {"model": agent.model.name, "max_tokens": min(agent.settings.output_reserve_tokens, able.max_output_tokens)}
    body |= mark(
        {"system": sending.system, "tools": sending.tools, "messages": agent.with_thoughts(sending)}, able.cache_breakpoints
    )
    body |= request_fields(agent.settings, able)

    def on_delta(delta: Delta) -> None:
        if delta.kind == "text":
            heard.append(delta.text)
        agent.watched(delta)

    try:
        reply = await agent.model.send(body, on_delta)
    except ModelError as error:
        agent.record(Failure, part="provider", message=str(error), meta={"request": id, "error": type(error).__name__})
        raise
    said = None
    if reply.content:
        said = agent.say("assistant", reply.content, "model", group=reply.id or None, model=reply.model or None)
        if any(block.get("type") in THINKING for block in reply.content):
            agent.thoughts[said] = reply.content
    heard.clear()
    agent.record(ReplyReceived, request=id, message=said, usage=reply.usage, stop_reason=reply.stop_reason, meta=reply.meta)
    for message, edit in applied(reply.meta):
        agent.record(Note, kind="provider-edit", message=message, meta={"request": id, "edit": edit})
    return reply


def set_prompt(agent: Agent) -> str:
    """The id of the PromptSet in force; a new one where system or tools changed."""
    now = agent.projector.prompt
    tools = [tool.schema for tool in agent.tools.values()]
    if now is not None and now.system == agent.system and now.tools == tools:
        return now.id
    reason = "first request" if now is None else "system prompt or tools changed"
    return agent.record(PromptSet, system=agent.system, tools=tools, reason=reason)


async def run_calls(agent: Agent, calls: list[Block], cut: bool = False) -> None:
    """Run the calls of one reply, in their order (a later one may rest on what an earlier one wrote), and append
    their results as one message. With an interrupt, the calls that are still open get a result that says so."""
    results: list[Block] = []
    exempt: set[str] = set()
    running = ""
    try:
        for call in calls:
            running = ""
            result = (
                Result("this call was cut off by the output limit and not run", True) if cut else await allowed(agent, call)
            )
            if result is None:
                agent.record(ToolStarted, tool_use_id=call["id"], name=call["name"])
                running = call["id"]
                if agent.workspace.stored(str(call["input"].get("path", ""))):
                    exempt.add(call["id"])
                result = await run_tool(agent, call)
                state.used(agent, call, result)
            results.append(result_block(call, result))
    except (asyncio.CancelledError, KeyboardInterrupt):
        for call in calls[len(results) :]:
            what = "was running; it was ended, and part of its effects may exist" if call["id"] == running else "was not run"
            results.append(result_block(call, Result(f"the person interrupted: this call {what}", True)))
        raise
    finally:
        if results:
            keep_results(agent, calls, results, exempt)
            state.checkpoint(agent)


async def run_tool(agent: Agent, call: Block) -> Result:
    """The tool's result. A tool that breaks is an event and a result: the model can go another way."""
    try:
        return await agent.tools[call["name"]].run(call["input"], agent.workspace)
    except Exception as error:
        message = f"{call['name']} broke: {type(error).__name__}: {error}"
        agent.record(Failure, part="tool", message=message, meta={"tool_use_id": call["id"]})
        return Result(message, True)


async def allowed(agent: Agent, call: Block) -> Result | None:
    """None if the call may run, else the result that says why not."""
    tool = agent.tools.get(call["name"])
    if tool is None or not isinstance(call.get("input"), dict):
        names = ", ".join(agent.tools)
        return Result(
            f"there is no tool {call['name']!r}; the tools are {names}" if tool is None else "the input is no object", True
        )
    command = tool.asks(call["input"])
    if command is None:
        return None
    before = command in agent.state.permissions
    decision = await agent.ask(PermissionRequest(tool.name, command, str(agent.workspace.root), before))
    if decision.allowed and decision.scope == "session":
        state.granted(agent, command)
    agent.record(
        Note,
        kind="permission",
        message=f"{'allowed' if decision.allowed else 'not allowed'}: {command}",
        meta={"tool_use_id": call["id"], "scope": decision.scope, "by": decision.by, "reason": decision.reason},
    )
    return None if decision.allowed else Result(f"this command is not allowed: {decision.reason or 'the person said no'}", True)


def keep_results(agent: Agent, calls: list[Block], results: list[Block], exempt: set[str]) -> None:
    """Large results to files, then all of them into history as one message."""
    names = {call["id"]: call["name"] for call in calls}
    events: list[Event] = []
    if agent.live.artifacts is not None:
        results, events = budget_results(results, agent.settings, agent.live.artifacts.write, exempt, names)
    for event in events:
        agent.live.append(replace(event, id=agent.live.new_id("x"), at=agent.live.now()))
    files = externalized(events)
    agent.say("user", results, "tool", meta={"externalized": files} if files else {})


def result_block(call: Block, result: Result) -> Block:
    """A result in the protocol's words."""
    block: Block = {"type": "tool_result", "tool_use_id": call["id"], "content": result.text}
    return block | {"is_error": True} if result.is_error else block
