"""The model calls that a Claude Code session's files show, and what each was sent.

Knows: which rows prove a call, and from which rows its request is made. Does not know how rows
are worded (`wire`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...history.events import MessageAppended, Usage
from ..base import Step
from .chain import Transcript


@dataclass(frozen=True)
class Call:
    """One model call: its entry for the list of steps, and where its request comes from."""

    step: Step
    transcript: Transcript
    leaf: int | None
    """position of the last row in the request"""
    limit: int
    """how many rows the file had when it was sent"""


def calls_of(transcript: Transcript, kind: str = "main") -> list[Call]:
    """The calls of one file, in file order."""
    calls: list[Call] = []
    for members in transcript.groups.values():
        i = members[0]
        event = transcript.events[i]
        assert isinstance(event, MessageAppended)
        if event.meta.get("synthetic"):
            continue
        own = transcript.own(i)
        usage = _largest(transcript, members)
        step = Step(0, kind if own else "subagent", usage, "rebuilt", event.id, transcript.lines[i], event.at, event.model)
        calls.append(Call(step, transcript, transcript.up(i), i))
    calls.sort(key=lambda call: call.limit)
    return calls


def _largest(transcript: Transcript, members: list[int]) -> Usage | None:
    """Usage of an answer: it stands on each of its rows, and on the last with the most output."""
    found = [e.usage for i in members if isinstance(e := transcript.events[i], MessageAppended) and e.usage is not None]
    return max(found, key=lambda usage: usage.output, default=None)


def numbered(calls: list[Call]) -> list[Call]:
    """The calls with their numbers, from 1."""
    from msgspec.structs import replace

    return [Call(replace(c.step, number=n), c.transcript, c.leaf, c.limit) for n, c in enumerate(calls, 1)]
