"""Which old tool traffic may go, and whether now is the time (R4.2).

Knows: the rules for what has lost its value, what is protected, and when rewriting the prefix pays.
Does not rewrite anything: it returns a commit, which `commits` replays from then on.

Rules: a file read again or edited later (older reads); searches older than the newest few; a failed
command that later succeeded; long arguments of writes that are done. Protected: the newest tokens of
results, the latest turn, exempt tools. A cold cache is rewritten at once, a hot one only when the
window presses, and only when it frees more than it makes the cache write again; a model that checks its prefix is never rewritten between compactions. There must be a
minimum gain, and it stops at a low watermark, so that it runs rarely.

Protection by tokens, minimum gain and watermark are common practice in current agents: about 40,000
tokens protected and 20,000 to 30,000 to gain at a 200k window.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..settings import ContextSettings
from .budget import estimate
from .calls import Call, calls_of, latest_turn
from .capabilities import Capabilities
from .commits import LARGE_ARGUMENT, placeholder
from .ledger import Entry
from .pieces import Piece, block_chars
from .repair import Message

POLICY = "reclaim/1"


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One block that may be cleared. `target` is `id#tool_use_id`, as a commit names it."""

    target: str
    rule: str
    """"superseded read" | "old search" | "resolved failure" | "done write" """
    at: int
    saves: int
    """characters"""


class Reclaim(msgspec.Struct, frozen=True):
    """What to clear now (nothing: `targets` is empty) and the ledger's entry that says why."""

    entry: Entry
    targets: list[str] = []
    reason: str = ""


def candidates(messages: Sequence[Message], settings: ContextSettings, calls: Sequence[Call] | None = None) -> list[Candidate]:
    """Blocks that a rule allows to clear and nothing protects, in the order of the request."""
    if calls is None:
        calls = calls_of(messages)
    turn = latest_turn(messages)
    room = settings.reclaim_protect_tokens
    protected: set[str] = set()
    for call in reversed(calls):
        if room <= 0:
            break
        if call.result is not None:
            protected.add(call.id)
            room -= estimate(call.result.chars, settings)
    out = []
    for call, rule in _by_rule(calls, settings):
        if call.id in protected or call.at >= turn or call.name in settings.reclaim_exempt_tools or call.result is None:
            continue
        piece, at = (call.use, call.at) if rule == "done write" else (call.result, call.result_at)
        saves = _saves(piece)
        if saves > 0:
            out.append(Candidate(f"{piece.sources[0]}#{call.id}", rule, at, saves))
    return sorted(out, key=lambda c: c.at)


def _by_rule(calls: Sequence[Call], settings: ContextSettings) -> list[tuple[Call, str]]:
    out: list[tuple[Call, str]] = []
    replaced: set[str] = set()
    succeeded: set[str] = set()
    searches = 0
    for call in reversed(calls):
        if call.kind == "read" and call.path:
            if call.path in replaced:
                out.append((call, "superseded read"))
            if call.done and not call.partial:
                replaced.add(call.path)
        elif call.kind == "write" and call.path:
            if call.done:
                replaced.add(call.path)
                out.append((call, "done write"))
        elif call.kind == "search":
            searches += 1
            if searches > settings.reclaim_keep_searches:
                out.append((call, "old search"))
        elif call.kind == "run":
            command = str(call.arguments.get("command", call.arguments))
            if call.failed and command in succeeded:
                out.append((call, "resolved failure"))
            if call.done:
                succeeded.add(command)
    return out


def _saves(piece: Piece) -> int:
    if piece.state not in ("whole", "preview"):
        return 0
    if piece.block.get("type") == "tool_use":
        arguments = piece.block.get("input") or {}
        if not any(isinstance(v, str) and len(v) > LARGE_ARGUMENT for v in arguments.values()):
            return 0
    return piece.chars - block_chars(placeholder(piece))


def decide(
    messages: Sequence[Message],
    tokens: int,
    settings: ContextSettings,
    cold: bool,
    capabilities: Capabilities | None = None,
    calls: Sequence[Call] | None = None,
) -> Reclaim:
    """Whether to reclaim before the next request of `tokens`, and what. `calls` are those of `messages`, where they
    are known already (`Projector.calls`).

    Works from the end of the history backwards until the low watermark is reached, so that as much of
    the prefix stays as can.
    """

    def no(why: str) -> Reclaim:
        return Reclaim(Entry("reclaim", why=why, tokens_in=tokens, tokens_out=tokens))

    if not settings.reclaim:
        return no("switched off")
    if capabilities is not None and capabilities.prefix_check:
        return no("this model checks its prefix: waits for a compaction")
    presses = tokens >= settings.soft_line
    if not cold and not presses:
        return no("the cache is hot and the window does not press")
    found = candidates(messages, settings, calls)
    goal = max(settings.reclaim_min_tokens, tokens - settings.reclaim_low_line)
    taken: list[Candidate] = []
    saved = 0
    for one in reversed(found):
        if saved >= goal * settings.chars_per_token:
            break
        taken.append(one)
        saved += one.saves
    gain = estimate(saved, settings)
    if not taken or gain < settings.reclaim_min_tokens:
        return no(f"{gain:,} tokens to gain, under the minimum of {settings.reclaim_min_tokens:,}")
    first = min(c.at for c in taken)
    after = estimate(sum(p.chars for m in messages[first:] for p in m), settings)
    lost = 0 if cold else max(0, after - gain)
    if lost > gain:
        return no(f"would write {lost:,} cached tokens again to free {gain:,}: left to the next compaction")
    rules = sorted({c.rule for c in taken})
    entry = Entry(
        "reclaim",
        fired=True,
        rule=", ".join(rules),
        why="the cache is cold" if cold else "the window presses",
        tokens_in=tokens,
        tokens_out=tokens - gain,
        touched=len(taken),
        lost_prefix_tokens=lost,
    )
    return Reclaim(entry, [c.target for c in reversed(taken)], ", ".join(rules))
