"""Layer "projection": the rows are there and linked, but the agent's way of reading them left some out.

Knows: two reading faults of real versions, each with its structure, and what the recorded usage says
of whether a request carried what the log holds. Without that witness a structure is only a note.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator

from ...foreign import claude_code
from ...history.events import ForeignRow, ProjectionCommitted
from ...projection.pieces import block_chars
from ..facts import Facts, once
from ..report import Finding, many
from ..witness import Answer

NOISE_TOKENS = 1_200
"""A smaller fall of the input says nothing: reminders come and go, thinking of earlier turns is dropped."""
NOISE_SHARE = 0.08


@once
def falls(facts: Facts) -> Iterator[tuple[Answer, Answer]]:
    """Calls whose counted input is smaller than the call's before, with no boundary between them, beyond noise and beyond
    what dropping the thinking of the last turn explains."""
    for before, now in facts.neighbours():
        drop = before.context - now.context
        noise = max(NOISE_TOKENS, NOISE_SHARE * before.context)
        if drop > noise and drop > noise + _thinking(facts, before, now):
            yield before, now


COUNTED = frozenset({"claude-code", "codex", "gemini", "nova", "opencode", "pi"})
"""Agents whose usage figures were checked against what they sent; of others the count is no witness."""


@once
def shortfalls(facts: Facts) -> Iterator[tuple[Answer, Answer]]:
    """Falls to well below what the log's own rules give for the request. A single count that jumps up is none."""
    witness = facts.witness
    if witness is None or facts.log.source.format not in COUNTED:
        return
    for before, now in falls(facts):
        short = witness.expected(now.chars) - now.context
        if short > 0.5 * (before.context - now.context) and not _by_the_rules(facts, before, now):
            yield before, now


def _by_the_rules(facts: Facts, before: Answer, now: Answer) -> bool:
    """Whether the rebuilt request is smaller too: then the agent's own rules (pruning, compression) explain the fall."""
    sizes = [sum(piece.chars for piece in facts.session.projection(a.step.number).pieces) for a in (before, now)]
    return sizes[1] < sizes[0]


def _thinking(facts: Facts, before: Answer, now: Answer) -> float:
    """Tokens of thinking that lawfully leave when the person speaks again: that of the turn before, as stored or as counted."""
    n = facts.order[now.rows[0]]
    if not facts.person(facts.path[n - 1]):
        return 0.0
    start = next((k for k in range(n - 2, -1, -1) if facts.person(facts.path[k])), 0)
    turn = facts.path[start : n - 1]
    stored = sum(block_chars(b) for i in turn if (m := facts.message(i)) for b in m.content if b.get("type") == "thinking")
    rate = facts.witness.rate if facts.witness else 3.5
    first = bisect_left(facts.answers, start, key=lambda a: facts.order[a.rows[0]])
    rows = itertools.takewhile(lambda a: facts.order[a.rows[0]] < n, facts.answers[first : first + n - start])
    hidden = sum(max(0.0, a.usage.output - sum(facts.chars[i] for i in a.rows) / rate) for a in rows)
    return max(stored / rate, hidden)


@once
def elided_in_one_pass(facts: Facts) -> Iterator[Finding]:
    """A row stands before the progress row it names as its parent; a version that strips progress rows while it scans
    never remaps such a row, and its walk stops there."""
    for i in sorted(facts.links):
        parent = facts.position.get(facts.parent(i) or "")
        if parent is None or parent <= i or not getattr(facts.events[parent], "kind", "").startswith("progress"):
            continue
        later = [pair for pair in shortfalls(facts) if pair[1].rows[0] > parent]
        cut = [k for k in facts.path if k < i]
        proved = [now for _, now in later if carried_only(facts, now, i)]
        if proved:
            line = facts.log.lines[proved[0].rows[0]]
            yield facts.finding(
                "elided-in-one-pass", "projection", "cause", [i, parent],
                f"line {facts.log.lines[i]} stands before the progress row (line {facts.log.lines[parent]}) that it names; the "
                f"version that answered at line {line} stopped its walk there, so it did not send {many(len(cut), 'record')} before it: its "
                f"counted input fits only what follows",
                certainty="proved", fate="hidden",
                remedy="every parent exists: a reader that resolves links in two passes reaches the start",
            )  # fmt: skip
            yield facts.finding(
                "walk-stopped", "branch", "symptom", [proved[0].rows[0]],
                "the request after this point began in the middle of the conversation", because_of="elided-in-one-pass",
            )  # fmt: skip
        else:
            yield facts.finding(
                "progress-after-child", "projection", "note", [i, parent],
                f"line {facts.log.lines[i]} stands before the progress row that it names; a reader that strips progress rows in one "
                "pass would stop there", fate="intact",
            )  # fmt: skip
        return


def carried_only(facts: Facts, answer: Answer, since: int) -> bool:
    """Whether the counted input is nearer to what follows a row than to everything."""
    witness = facts.witness
    if witness is None:
        return False
    first = answer.rows[0]
    part = sum(facts.chars[k] for k in facts.path if since <= k < first)
    return abs(answer.context - witness.expected(part)) < abs(answer.context - witness.expected(answer.chars)) / 2


@once
def text_on_sibling(facts: Facts) -> Iterator[Finding]:
    """A text that the harness put in for a call hangs from the result of one of several parallel calls, so the walk goes
    past it and pairing brings back only the result."""
    for i in facts.conversation:
        event = facts.message(i)
        if event is None or i in facts.reachable or facts.side(i) or event.origin != "nova" or event.meta.get("synthetic"):
            continue
        parent = facts.position.get(event.parent or "")
        if parent is None or parent not in facts.reachable or facts.chars[i] < 200:
            continue
        witness = facts.witness
        size = facts.chars[i] / (witness.rate if witness else 3.5)
        dropped = [now for before, now in facts.neighbours() if before.rows[0] > i and _lacks(facts, before, now, size)]
        if dropped:
            yield facts.finding(
                "text-on-sibling", "projection", "cause", [i],
                f"the text at line {facts.log.lines[i]} (about {size:,.0f} tokens, an estimate) hangs from the result of a parallel "
                f"call, where a walk from the end passes it by; the input counted at line {facts.log.lines[dropped[0].rows[0]]} is "
                "too small to have held it",
                certainty="proved", fate="hidden",
                remedy="it is on disk at that line; load it again",
            )  # fmt: skip
        else:
            yield facts.finding(
                "text-beside-branch", "projection", "note", [i],
                f"the text at line {facts.log.lines[i]} hangs beside the active branch; a resume may leave it out",
                certainty="inferred", fate="unreachable",
            )  # fmt: skip


def _lacks(facts: Facts, before: Answer, now: Answer, size: float) -> bool:
    """Whether the counted input went down by the size of one text, what was added since allowed for."""
    witness = facts.witness
    if witness is None or facts.log.source.format not in COUNTED or size < 100:
        return False
    missing = before.context + (now.chars - before.chars) / witness.rate - now.context
    return abs(missing - size) < 0.3 * size


def passed_by_on_resume(facts: Facts) -> Iterator[Finding]:
    """Parallel calls that the agent's own version left out when it went on from the file (Claude Code before 2.1)."""
    if facts.transcript is None or facts.last is None:
        return
    left = claude_code.passed_by(facts.log, facts.last)
    gone = sorted(i for i in map(facts.log.index.__getitem__, left) if i in facts.reachable)
    if gone:
        yield facts.finding(
            "passed-by-on-resume", "projection", "cause", gone,
            f"the latest request left out {many(len(gone), 'record')} of parallel calls that are on the branch (lines "
            f"{', '.join(map(str, facts.lines(gone)[:6]))}): after a resume this version walks by parents alone, and of parallel calls only the last is kept",
            certainty="proved", fate="hidden", remedy="newer versions bring them back; read those results again",
        )  # fmt: skip


def input_shrinks(facts: Facts) -> Iterator[Finding]:
    """The counted input falls and nothing in the log explains it: clearing at request time looks like this."""
    if explained(facts):
        return
    for before, now in shortfalls(facts):
        if nearly_empty(facts, now) or _recorded_clearing(facts, before, now):
            continue
        yield facts.finding(
            "input-shrinks", "projection", "symptom", [before.rows[-1], *now.rows],
            f"the counted input falls from {before.context:,} to {now.context:,} tokens at line {facts.log.lines[now.rows[0]]} with no "
            "boundary between: something was left out of the request that the log holds, by clearing at request time or by the "
            "process; a capture of that request would decide",
            certainty="undecidable", fate="hidden",
            remedy="record the next request through a proxy, or turn clearing off and compare",
        )  # fmt: skip


@once
def _structural(facts: Facts) -> Iterator[Finding]:
    for check in (elided_in_one_pass, text_on_sibling):
        yield from (f for f in check(facts) if f.role == "cause")


def explained(facts: Facts) -> bool:
    """Whether the structure of the log explains that a request carried less."""
    return bool(_structural(facts))


def _recorded_clearing(facts: Facts, before: Answer, now: Answer) -> bool:
    """Whether the log says itself that something was cleared between two calls."""
    rows = facts.events[before.rows[-1] + 1 : now.rows[0]]
    return any((isinstance(e, ForeignRow) and "microcompact" in e.kind) or isinstance(e, ProjectionCommitted) for e in rows)


def nearly_empty(facts: Facts, answer: Answer) -> bool:
    """Whether the counted input fits a request that carried the current turn and nothing of the history."""
    witness = facts.witness
    if witness is None:
        return False
    bare, full = witness.expected(answer.turn_chars), witness.expected(answer.chars)
    if full - bare < NOISE_TOKENS:
        return False
    return answer.context <= bare + max(0.1 * (full - bare), 300)
