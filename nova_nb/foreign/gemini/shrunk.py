"""Compressions that an older Gemini CLI stored nowhere, told by what the provider counted.

Knows: that a request of so many characters cannot have been so few tokens. Does not know what the
compression kept: older versions write neither the summary nor the cut.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from ...history.events import Usage
from .replay import Call, Message

SHRUNK = 0.6
"""A request that counts below this part of what its rows would take was compressed."""
JUMP = 2.0
"""A count this many times what the rows would take says nothing of the next one (a part that was sent once, or a miscount)."""
CHARS_A_TOKEN = 4.0
"""Rate until two calls of the session give one of their own."""


@dataclass(frozen=True)
class Shrunk:
    """What a call's request lacked."""

    what: str
    """one sentence, for a projection's `unknown`"""
    unsure: frozenset[str]
    """ids of messages that the compression summarised or kept: which, no file says"""


def shrunk(calls: Sequence[Call], usage_of: Callable[[Message], Usage | None]) -> list[Shrunk | None]:
    """For each call what a compression took from it, or None. A call without a count is as the call before it.

    A new process reads the whole list again, so its count is whole again too.
    """
    out: list[Shrunk | None] = []
    sizes: dict[int, int] = {}
    rates: list[float] = []
    last: tuple[int, int] | None = None
    for n, call in enumerate(calls):
        state = out[-1] if out else None
        usage = usage_of(call.answer) if call.answer is not None else None
        size = sum(sizes.setdefault(id(m), len(msgspec.json.encode(m.data))) for m in call.before)
        if usage is not None and usage.context:
            rate = statistics.median(rates) if rates else CHARS_A_TOKEN
            expected = usage.context if last is None else last[0] + (size - last[1]) / rate
            if usage.context < SHRUNK * expected:
                state = state or Shrunk(_sentence(usage.context, expected), frozenset(m.id for m in calls[n - 1].before))
            else:
                state = None
                if usage.context <= JUMP * expected:
                    if last is not None and size - last[1] > 1_000 and usage.context > last[0]:
                        rates.append(min(max((size - last[1]) / (usage.context - last[0]), 1.0), 8.0))
                    last = (usage.context, size)
        out.append(state)
    return out


def _sentence(counted: int, expected: float) -> str:
    return (
        f"a compression: the provider counted {counted} tokens where these rows take about {expected:.0f}, and this version "
        "stores none; what is shown here is more than was sent"
    )
