"""Rows that a rebuilt request holds and that the provider's own count proves were not sent.

Knows: which findings rest on the usage witness, and which rows each of them takes out, from which
call on. The tracer asks, so that "in the request" never contradicts what was counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .facts import Facts


@dataclass(frozen=True)
class Unseen:
    """From call `step` on, none of `events` was in a request (until the log goes past a boundary)."""

    step: int
    events: frozenset[str]
    layer: str
    line: int
    message: str


def unseen(facts: Facts) -> Iterator[Unseen]:
    """What the counted input of this session's calls rules out."""
    from .checks.projection import carried_only, elided_in_one_pass, text_on_sibling
    from .checks.runtime import started_empty

    starts = {line: a.step.number for a in facts.answers for line in facts.lines(a.rows)}
    for finding in started_empty(facts):
        step = starts[finding.lines[0]]
        rows = _before_turn(facts, finding.lines[0])
        yield Unseen(step, rows, finding.layer, finding.lines[0], finding.message)
    for finding in elided_in_one_pass(facts):
        if finding.role == "cause":
            cut = facts.on_line(finding.lines[0])[0]
            rows = frozenset(facts.events[i].id for i in facts.path if i < cut)
            later = [a.step.number for a in facts.answers if a.rows[0] > cut and carried_only(facts, a, cut)]
            if later:
                yield Unseen(later[0], rows, finding.layer, finding.lines[0], finding.message)
    for finding in text_on_sibling(facts):
        if finding.role == "cause":
            at = facts.on_line(finding.lines[0])[0]
            later = [a.step.number for a in facts.answers if a.rows[0] > at]
            yield Unseen(later[-1], frozenset({facts.events[at].id}), finding.layer, finding.lines[0], finding.message)


def _before_turn(facts: Facts, line: int) -> frozenset[str]:
    """Rows of the branch before the turn that an answer belongs to."""
    at = facts.on_line(line)[0]
    n = next((n for n, i in enumerate(facts.path) if i >= at), len(facts.path))
    start = next((k for k in range(n - 1, -1, -1) if facts.person(facts.path[k])), 0)
    return frozenset(facts.events[i].id for i in facts.path[:start])
