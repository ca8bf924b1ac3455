"""A conversation run again under another policy, without a model: what each request would have been.

Knows: the order of events in a loop, as the agent's own loop has it. The words of the model and the
results of the tools are the recorded ones: what would have been *answered* to another request is not
known, and nothing here pretends to know it. Summaries are made by rule and marked "mechanical".
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..history.events import Event, MessageAppended, PromptSet, ReplyReceived, RequestSent, SessionStarted
from ..settings import ContextSettings
from .projector import Projector
from .strategies.base import Strategy


def rerun(
    messages: Sequence[MessageAppended],
    strategy: Strategy,
    settings: ContextSettings,
    prompt: PromptSet | None = None,
    session: str = "what-if",
    model: str = "",
) -> list[Event]:
    """The log that this conversation would have given. Messages keep their ids; a request stands before each
    assistant message, its `meta["for"]` the id of that message."""
    projector = Projector(settings)
    events: list[Event] = []

    def append(event: Event) -> None:
        events.append(event)
        projector.add(event)

    append(
        SessionStarted(
            id=session, session=session, model=model, settings=settings.model_dump(), origin={"what_if": strategy.name}
        )
    )
    if prompt is not None:
        append(prompt)
    step = 0
    for message in messages:
        if message.role == "assistant" and projector.chain:
            tokens_before = projector.tokens
            for event in strategy.before_request(projector, message.at):
                append(event)
            step += 1
            request = projector.request()
            append(
                RequestSent(
                    id=f"what-if-r{step}", at=message.at, step=step, leaf=projector.head, hash=request.hash,
                    prefix_bytes=request.prefix_bytes or 0, total_bytes=request.total_bytes or 0, tokens=projector.tokens,
                    model=model, prompt=prompt.id if prompt else None, policy=strategy.name,
                    meta={"for": message.id, "tokens_before": tokens_before},
                )
            )  # fmt: skip
        arrived, before = strategy.arrive(message)
        for event in before:
            append(event)
        append(replace(arrived, parent=projector.head))
        if message.role == "assistant" and step:
            append(ReplyReceived(id=f"what-if-p{step}", at=message.at, request=f"what-if-r{step}", message=message.id))
    return events


def conversation(events: Sequence[Event]) -> list[MessageAppended]:
    """The messages to run again, from the rows of a branch: rows of one answer joined (adjacent assistant rows are one,
    unless the log groups them apart), summaries of the agent's own compactions, hidden and side-chain rows left out."""
    out: list[MessageAppended] = []
    for event in events:
        if not isinstance(event, MessageAppended) or not event.content:
            continue
        if any(event.meta.get(flag) for flag in ("summary", "hidden", "sidechain", "synthetic")):
            continue
        last = out[-1] if out else None
        one = (
            last is not None
            and last.role == event.role == "assistant"
            and (last.group == event.group or None in (last.group, event.group))
        )
        if one and last is not None:
            out[-1] = replace(last, content=[*last.content, *event.content])
        else:
            out.append(event)
    return out


def message_lengths(messages: Sequence[MessageAppended]) -> dict[str, list[int]]:
    """Characters of each message by who wrote it, to look at before a window's size is chosen [004].

    Keys: "person", "model", "tool".
    """
    from .pieces import block_chars

    out: dict[str, list[int]] = {"person": [], "model": [], "tool": []}
    for m in messages:
        tool = any(b.get("type") == "tool_result" for b in m.content)
        out["tool" if tool else "model" if m.role == "assistant" else "person"].append(sum(block_chars(b) for b in m.content))
    return out
