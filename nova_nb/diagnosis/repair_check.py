"""Whether a repaired copy is better than its original: read again, projected again, compared.

Knows: what a copy must not lose. Does not know what was changed in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..history.log import record_id
from .facts import Facts
from .report import Counts, diagnose

if TYPE_CHECKING:
    from ..session import Session


def check_copy(facts: Facts, path: Path) -> tuple[Counts, str | None]:
    """The counts of the copy, and why it is not better, or None."""
    format = facts.session.format
    copy = type(facts.session)(format.read(path), format)
    after: Facts = copy.facts
    before, now = facts.counts, after.counts
    wrong = None
    if (now.reachable or 0) < (before.reachable or 0):
        wrong = f"it reaches {now.reachable} records, the original {before.reachable}"
    elif (now.reachable or 0) == (before.reachable or 0) and not facts.log.damage and not _fewer_causes(facts, copy):
        wrong = "it reaches no more records than the original"
    elif len(copy.log.damage) > len([d for d in facts.log.damage if d.kind == "torn"]):
        wrong = "it does not read without damage"
    elif _ids(after) != _ids(facts):
        wrong = "its boundaries are not those of the original"
    elif _broken_pairs(after) > _broken_pairs(facts):
        wrong = "it parts calls from their results"
    elif len(_roots(after)) > 1:
        wrong = "its branch has more than one root"
    return now, wrong


def _fewer_causes(facts: Facts, copy: Session) -> bool:
    return len(diagnose(copy).causes) < len(diagnose(facts.session).causes)


def _ids(facts: Facts) -> list[str]:
    return [record_id(facts.events[b].id) for b in facts.boundaries]


def _broken_pairs(facts: Facts) -> int:
    from .checks.pairing import call_without_result, result_without_call

    return sum(f.role == "cause" for check in (call_without_result, result_without_call) for f in check(facts))


def _roots(facts: Facts) -> list[int]:
    return [
        i for i in facts.path if facts.parent(i) is None and (m := facts.message(i)) is not None and not m.meta.get("summary")
    ]
