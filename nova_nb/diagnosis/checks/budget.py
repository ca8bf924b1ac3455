"""Layer "budget": compaction that cannot help, because what fills the window comes straight back.

Knows: how often a session was compacted and what stood before each boundary.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...history.events import CompactionBoundaryCreated
from ..facts import Facts
from ..report import Finding

TIMES = 3
"""Compactions in a row that the same refill brought on (the seeds stop after three)."""
MOST_ROWS = 40
"""Conversation records between two of them: a loop is short."""
SHARE = 0.5
"""Part of what stood between two boundaries that the refill must make up."""


def compaction_loop(facts: Facts) -> Iterator[Finding]:
    """Three or more compactions in a row, and before each the same large result."""
    run: list[tuple[int, int]] = []
    key: str | None = None
    for n, b in enumerate(facts.boundaries):
        since = facts.boundaries[n - 1] if n else -1
        refill = _refill(facts, since, b) if _automatic(facts, b) else None
        if refill is not None and refill[0] == key:
            run.append((refill[1], b))
        else:
            if len(run) >= TIMES:
                break
            key, run = (refill[0], [(refill[1], b)]) if refill is not None else (None, [])
    if len(run) < TIMES:
        return
    rows = [i for pair in run for i in pair]
    size = facts.chars[run[0][0]]
    yield facts.finding(
        "compaction-loop", "budget", "cause", rows,
        f"{len(run)} automatic compactions in a row, and before each the same result of {size:,} characters came back (lines "
        f"{', '.join(str(facts.log.lines[i]) for i, _ in run)}): the window refills with what was just compacted away",
        fate="hidden", remedy="store that result in a file and read ranges of it, or take a larger window; compacting again will not help",
    )  # fmt: skip


def _automatic(facts: Facts, b: int) -> bool:
    event = facts.events[b]
    return isinstance(event, CompactionBoundaryCreated) and event.trigger != "manual"


def _refill(facts: Facts, since: int, b: int) -> tuple[str, int] | None:
    """What call gave the largest result between two boundaries, if it makes up most of what stood there."""
    rows = [i for i in facts.spoken_between(since, b) if not facts.side(i)]
    total = sum(facts.chars[i] for i in rows)
    if not rows or (since >= 0 and len(rows) > MOST_ROWS):
        return None
    largest = max(rows, key=lambda i: facts.chars[i])
    event = facts.message(largest)
    if event is None or facts.chars[largest] < SHARE * total:
        return None
    for block in event.content:
        if block.get("type") == "tool_result":
            return _call(facts, rows, block.get("tool_use_id")), largest
    return None


def _call(facts: Facts, rows: list[int], id: object) -> str:
    """Name and input of a call: the same call again is the same refill."""
    for i in rows:
        event = facts.message(i)
        for block in event.content if event is not None else ():
            if block.get("type") == "tool_use" and block.get("id") == id:
                return msgspec.json.encode([block.get("name"), block.get("input")], order="deterministic").decode(
                    "utf-8", "replace"
                )
    return str(id)
