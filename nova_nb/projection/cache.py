"""The provider's prompt cache: where to mark it, what broke it, and whether a miss was expected (R9.2, R9.4).

Knows: Anthropic's cache marks and their limits, the shared prefix of two requests, and how to read
a usage as a witness. Does not know prices (`prices`) and sends nothing.

Limits, from the prompt caching page of the Claude documentation (read 2026-08): at most 4 marks, a
mark finds an entry written at most 20 blocks before it, a prefix shorter than 1,024 to 4,096 tokens
(by model) is not cached, an entry lives 5 minutes (or 1 hour) after its last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from ..history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    ReplyReceived,
    RequestSent,
    Usage,
)
from ..settings import ContextSettings

LOOKBACK_BLOCKS = 20
MARK = {"type": "ephemeral"}


def mark(body: dict[str, Any], marks: int = 4) -> dict[str, Any]:
    """A body with cache marks on the three longest stable prefixes: the system block, the last tool, the tail of
    the last user message. What it is given stays unmarked: marked parts are copies.

    The system mark stands on the first block, which holds nothing of the project (R9.1). Where more than 20
    blocks came since the user message before the last, that one gets a mark too: it ends the prefix that the
    last request wrote, which would otherwise be out of reach.

    >>> marked = mark({"system": [{"type": "text", "text": "You help."}], "tools": [], "messages": []})
    >>> marked["system"][0]["cache_control"]
    {'type': 'ephemeral'}
    """
    out = dict(body)
    if isinstance(body.get("system"), list) and body["system"]:
        out["system"] = [_marked(body["system"][0]), *body["system"][1:]]
    if body.get("tools"):
        out["tools"] = [*body["tools"][:-1], _marked(body["tools"][-1])]
    messages = list(body.get("messages") or [])
    users = [i for i in range(len(messages) - 1, -1, -1) if messages[i]["role"] == "user" and _can_mark(messages[i])]
    for i in users[:1]:
        messages[i] = _marked_tail(messages[i])
    if marks > 3 and len(users) > 1:
        since = sum(len(m["content"]) for m in messages[users[1] + 1 :] if isinstance(m["content"], list))
        if since > LOOKBACK_BLOCKS:
            messages[users[1]] = _marked_tail(messages[users[1]])
    out["messages"] = messages
    return out


def _marked(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "cache_control": MARK}


def _can_mark(message: dict[str, Any]) -> bool:
    content = message["content"]
    return bool(content) and (isinstance(content, str) or content[-1].get("type") not in ("thinking", "redacted_thinking"))


def _marked_tail(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], _marked(blocks[-1])]}


def is_cold(last: str, now: str, settings: ContextSettings) -> bool:
    """Whether the cache of a request sent at `last` has run out at `now` (ISO 8601; an unknown time is not cold).

    >>> is_cold("2026-01-01T00:00:00Z", "2026-01-01T00:05:01Z", ContextSettings())
    True
    """
    seconds = _between(last, now)
    return seconds is not None and seconds > settings.cache_life_seconds


class Break(msgspec.Struct, frozen=True):
    """A request that does not begin with all of the one before it."""

    kept_bytes: int
    """canonical bytes from the start that are the same"""
    lost_bytes: int
    """bytes of the request before that are no prefix any more"""
    cause: str
    """"compaction" | "reclaim" | "clip" | "fold" | "undone" | "prompt" | "branch" | "unknown" """
    event: str | None
    message: str


_CAUSES: tuple[tuple[type[Event], str, str], ...] = (
    (CompactionBoundaryCreated, "compaction", "a compaction put a summary in place of earlier messages"),
    (BranchSelected, "branch", "the session went on from another message"),
    (ProjectionUndone, "undone", "a commit of the projection was undone"),
    (PromptSet, "prompt", "the system prompt or the tools changed"),
)


def explain(before_bytes: int, prefix_bytes: int, moved: Sequence[Event]) -> Break | None:
    """Why a request does not begin with the one before it; None where it does.

    `moved` are the events between the two that can move the prefix (`Projector.moved`); the newest one
    that can explain it is named.

    >>> explain(100, 100, []) is None
    True
    >>> explain(100, 40, []).cause
    'unknown'
    """
    if prefix_bytes >= before_bytes:
        return None
    lost = before_bytes - prefix_bytes
    for event in reversed(moved):
        if isinstance(event, ProjectionCommitted):
            return Break(prefix_bytes, lost, event.action, event.id, f"{event.action}: {event.reason or 'a commit'}")
        for kind, cause, words in _CAUSES:
            if isinstance(event, kind):
                return Break(prefix_bytes, lost, cause, event.id, words)
    if moved:
        return Break(prefix_bytes, lost, "branch", moved[-1].id, "a message joined another branch")
    return Break(prefix_bytes, lost, "unknown", None, "nothing in the log explains it")


_MOVES: tuple[type[Event], ...] = (*(kind for kind, _, _ in _CAUSES), ProjectionCommitted)


class Miss(msgspec.Struct, frozen=True):
    """Tokens that should have come from the cache and did not, by the usage that came back."""

    expected: int
    read: int
    reason: str
    """"expired" | "moved" | "too-short" | "unexpected" """

    @property
    def missed(self) -> int:
        return self.expected - self.read


def watch(
    before: Usage,
    after: Usage,
    seconds: float | None,
    settings: ContextSettings,
    broken: Break | None = None,
    min_tokens: int = 1_024,
) -> Miss | None:
    """Whether a request missed the cache that the one before it wrote or read; None where it did not.

    A shortfall counts from 5 % and 2,000 tokens (a small one is block granularity). `seconds` between the two
    requests, None where the log has no times.

    >>> watch(Usage(cache_write=50_000), Usage(input=50_200), 20, ContextSettings()).reason
    'unexpected'
    >>> watch(Usage(cache_write=50_000), Usage(input=200, cache_read=50_000), 20, ContextSettings()) is None
    True
    """
    expected = before.cache_read + before.cache_write
    missed = expected - after.cache_read
    if missed <= max(0.05 * expected, 2_000):
        return None
    if broken is not None:
        reason = "moved"
    elif seconds is not None and seconds > settings.cache_life_seconds:
        reason = "expired"
    elif expected < min_tokens:
        reason = "too-short"
    else:
        reason = "unexpected"
    return Miss(expected, after.cache_read, reason)


class Seen(msgspec.Struct, frozen=True):
    """One main request beside the one before it."""

    step: int
    prefix_bytes: int
    total_bytes: int
    broken: Break | None = None
    miss: Miss | None = None


def report(events: Sequence[Event], settings: ContextSettings) -> list[Seen]:
    """Every main request of a Nova log: how much of the one before it begins with, what moved the prefix, and whether
    the usage that came back shows a miss. Unexpected is a miss that nothing in the log explains."""
    out: list[Seen] = []
    moved: list[Event] = []
    sent: dict[str, RequestSent] = {}
    last: RequestSent | None = None
    usage: Usage | None = None
    for event in events:
        if isinstance(event, RequestSent) and event.kind == "main":
            broken = None if last is None else explain(last.total_bytes, event.prefix_bytes, moved)
            out.append(Seen(event.step, event.prefix_bytes, event.total_bytes, broken))
            sent[event.id] = event
            moved = []
        elif isinstance(event, ReplyReceived) and event.request in sent:
            request = sent[event.request]
            if usage is not None and last is not None and event.usage.context and out[-1].step == request.step:
                miss = watch(usage, event.usage, _between(last.at, request.at), settings, out[-1].broken)
                out[-1] = msgspec.structs.replace(out[-1], miss=miss)
            usage = event.usage if event.usage.context else usage
            last = request
        elif isinstance(event, _MOVES):
            moved.append(event)
    return out


def _between(then: str, now: str) -> float | None:
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()
    except (ValueError, TypeError):
        return None
