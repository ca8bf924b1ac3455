"""Full compaction: when, where to cut, what is asked, what is committed (SPEC 5).

Knows: the triggers, the tail, and how a plan and a summary become a boundary. Does not call a model
and appends nothing: the loop does both, in the order

    due(...)  →  plan(...)  →  request_for(...)  →  the model's answer  →  commit(...)

All functions are pure. Figures are the seeds' [000]; each is a setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from ..history.events import CompactionBoundaryCreated
from ..ids import Source, System, iso
from ..settings import ContextSettings
from .attachment import attachment
from .budget import chars_of, estimate
from .invariants import PROTOCOL, asks, safe_cuts
from .pieces import Piece
from .repair import Message
from .summary import framed, instruction, refusal, symbols_in

POLICY = "compaction/1"


class Health(msgspec.Struct, frozen=True):
    """How compaction has gone lately: a fold of the log (`Projector.health`)."""

    failures: int = 0
    """failed compactions in a row"""
    refills: int = 0
    """compactions in a row that came right after the one before"""


HEALTHY = Health()


class Due(msgspec.Struct, frozen=True):
    """Whether to compact before the next request. `trigger`: "" | "soft" | "hard" | "stopped"."""

    trigger: str
    why: str

    @property
    def now(self) -> bool:
        return self.trigger in ("soft", "hard")


def due(tokens: int, settings: ContextSettings, health: Health = HEALTHY, window: int | None = None) -> Due:
    """R5.1: the soft line is tried behind the breaker, the hard line is forced past it.

    >>> [due(n, ContextSettings()).trigger for n in (166_999, 167_000, 177_000)]
    ['', 'soft', 'hard']
    >>> due(170_000, ContextSettings(), Health(failures=3)).trigger, due(177_000, ContextSettings(), Health(failures=3)).trigger
    ('', 'hard')
    """
    shrink = settings.window_tokens - min(window or settings.window_tokens, settings.window_tokens)
    soft, hard = settings.soft_line - shrink, settings.hard_line - shrink
    if tokens < soft:
        return Due("", f"{tokens:,} tokens, under the soft line of {soft:,}")
    if health.refills >= settings.thrash_refills:
        return Due("stopped", f"the window filled again right after each of the last {health.refills} compactions")
    if tokens >= hard:
        return Due("hard", f"{tokens:,} tokens, at or over the hard line of {hard:,}")
    if health.failures >= settings.breaker_failures:
        return Due("", f"the breaker is open after {health.failures} failures; the hard line is {hard:,}")
    return Due("soft", f"{tokens:,} tokens, at or over the soft line of {soft:,}")


class Plan(msgspec.Struct, frozen=True):
    """Where to cut and what that means. `cut` is an index into the messages of the request, None: not worth it."""

    cut: int | None
    why: str
    prefix_tokens: int = 0
    tail_tokens: int = 0
    kept: list[str] = []
    """ids of the tail's nodes, oldest first"""
    summarised: list[str] = []
    strip_thinking: bool = False
    candidate: int = 0
    """where the tail's size alone would have cut"""


def plan(
    messages: Sequence[Message], settings: ContextSettings, strip_thinking: bool = False, chars: int | None = None
) -> Plan:
    """R5.2 and R5.3: from the end backwards at least 10,000 tokens or 5 messages, never over 40,000; then to a
    cut that parts no unit, earlier first. A prefix under 2,000 tokens is not worth it.

    `strip_thinking`: the model checks its prefix, so the tail's thinking leaves in the same commit. It also
    happens where a turn is larger than the tail may be and could not be split otherwise. `chars` are those of all
    messages, where they are known already (`Projector.chars`): then only the tail is measured.
    """
    n = reach = candidate = len(messages)
    tails = [0]  # tokens of the last 0, 1, 2 … messages
    enough = False
    while reach > 1 and not (enough and asks(messages[reach])):
        size = tails[-1] + message_tokens(messages[reach - 1], settings)
        if size > settings.tail_max_tokens:
            break
        reach -= 1
        tails.append(size)
        if not enough:
            candidate = reach
            enough = size >= settings.tail_min_tokens or n - reach >= settings.tail_min_messages
    since = max(reach, 1)  # the person's words before the candidate are a safe cut: none before them can be the last one
    cut = None if strip_thinking else _snap(safe_cuts(messages, since=since), candidate)
    if cut is None or (cut == n and candidate < n):
        cut = _snap(safe_cuts(messages, PROTOCOL, since), candidate)
        strip_thinking = strip_thinking or (cut is not None and _thinks(messages[cut:]))
    if cut is None:
        return Plan(None, "no cut would leave the protocol's units whole", candidate=candidate)
    prefix, tail = ([p for m in part for p in m] for part in (messages[:cut], messages[cut:]))
    per_token = settings.chars_per_token
    size = chars_of(prefix, per_token) if chars is None else chars - chars_of(tail, per_token)
    before, after = estimate(size, settings), tails[n - cut]
    if before < settings.min_prefix_tokens:
        why = f"the prefix of {before:,} tokens is under {settings.min_prefix_tokens:,}: not worth a summary"
        return Plan(None, why, before, after, candidate=candidate)
    kept, gone = (dict.fromkeys(chain.from_iterable([p.sources for p in part])) for part in (tail, prefix))
    moved = "" if cut == candidate else f"; moved from {candidate} so that calls and results stay together"
    why = f"keeps {n - cut} messages of {after:,} tokens{moved}"
    return Plan(cut, why, before, after, list(kept), [g for g in gone if g not in kept], strip_thinking, candidate)


def _snap(cuts: Sequence[int], candidate: int) -> int | None:
    """The last safe cut at or before the candidate, else the first one after it."""
    return max((c for c in cuts if c <= candidate), default=min(cuts, default=None))


def _thinks(messages: Sequence[Message]) -> bool:
    return any(p.block.get("type") in ("thinking", "redacted_thinking") for m in messages for p in m)


def message_tokens(message: Message, settings: ContextSettings) -> int:
    """Estimated tokens of one message."""
    return estimate(chars_of(message, settings.chars_per_token), settings)


def request_for(settings: ContextSettings, focus: str = "") -> dict[str, Any]:
    """The one message that follows the main request's system, tools and messages, so that the summary call reads
    them from the cache (R5.5). It goes to `RequestSent.meta["append"]` as well."""
    tokens = min(settings.summary_max_tokens, max(1, settings.output_reserve_tokens))
    return {"role": "user", "content": [{"type": "text", "text": instruction(tokens, focus)}]}


def person_words(messages: Sequence[Message], gone: Sequence[str], settings: ContextSettings) -> list[str]:
    """What the person said in the summarised part, newest first within the setting's tokens, given oldest first."""
    room = settings.keep_person_tokens
    out: list[str] = []
    left = set(gone)
    for piece in (piece for message in reversed(messages) for piece in reversed(message)):
        if piece.role != "user" or piece.state != "whole" or piece.block.get("type") != "text" or piece.sources[0] not in left:
            continue
        size = estimate(piece.chars, settings)
        if size > room:
            break
        room -= size
        out.append(piece.block["text"])
    return out[::-1]


def commit(
    planned: Plan,
    summary: str,
    messages: Sequence[Message],
    settings: ContextSettings,
    ids: Source | None = None,
    *,
    leaf: str | None,
    trigger: str,
    tokens_before: int,
    transcript: str = "",
    skills: Mapping[str, str] | None = None,
    tools: Sequence[str] = (),
    contents: Mapping[str, str] | None = None,
    prefix: str = "",
    meta: Mapping[str, Any] | None = None,
) -> CompactionBoundaryCreated | str:
    """The boundary that stands for the summarised part, or why the summary is refused (then nothing changes)."""
    if planned.cut is None:
        return planned.why
    gone = sum([p.chars for m in messages[: planned.cut] for p in m])
    why = refusal(summary, gone)
    if why is not None:
        return why
    person = person_words(messages, planned.summarised, settings)
    content = [{"type": "text", "text": framed(summary, transcript, person)}]
    rebuilt = attachment(messages, planned.kept, settings, skills, tools, contents)
    ids = ids or System()
    after = estimate(sum(len(b["text"]) for b in [*content, *rebuilt]), settings) + planned.tail_tokens
    total = estimate(gone + sum(p.chars for m in messages[planned.cut :] for p in m), settings)
    return CompactionBoundaryCreated(
        id=ids.new_id("c"),
        at=iso(ids.now()),
        logical_parent=leaf,
        trigger=trigger,
        content=content,
        attachment=rebuilt,
        kept=planned.kept,
        tokens_before=tokens_before,
        tokens_after=max(0, tokens_before - total) + after,
        meta={
            "policy": POLICY,
            "prefix": prefix,
            "why": planned.why,
            "candidate": planned.candidate,
            "cut": planned.cut,
            "summarised": planned.summarised,
            "symbols": symbols_in(summary),
            **({"strip_thinking": True} if planned.strip_thinking else {}),
            **(meta or {}),
        },
    )


def refills(pieces: Sequence[Piece], settings: ContextSettings) -> str:
    """What fills the window again: the largest pieces, for the explanation of a stop."""
    largest = sorted(pieces, key=lambda p: -p.chars)[:3]
    named = [f"{_name(p)} ({estimate(p.chars, settings):,} tokens)" for p in largest if p.chars]
    return "; ".join(named)


def _name(piece: Piece) -> str:
    block = piece.block
    if block.get("type") == "tool_result":
        return f"the result of {block.get('tool_use_id')}"
    if block.get("type") == "tool_use":
        return f"the call {block.get('name')} {block.get('id')}"
    return {"whole": "a message"}.get(piece.state, f"the {piece.state}") + f" {piece.sources[0]}"
