"""Layer "memory": instructions that were put in once and did not come back after a compaction.

Knows: what start hooks attached. Whether the model kept to a rule that it could see is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...history.events import ForeignRow
from ..facts import Facts
from ..fate import finder, strings
from ..report import Finding


def silent_hook(facts: Facts) -> Iterator[Finding]:
    """A start hook attached instructions, ran again after a compaction, and attached nothing; the summary holds none of them."""
    given = [(i, text) for i in range(len(facts.events)) for text in _attached(facts, i)]
    for b in facts.boundaries:
        before = [(i, text) for i, text in given if i < b]
        end = next((x for x in facts.boundaries if x > b), len(facts.events))
        reruns = [
            i for i in range(b, end) if _kind(facts, i) == "attachment/hook_success" and _event(facts, i) == "SessionStart"
        ]
        if not before or not reruns or any(b < i < end for i, _ in given):
            continue
        lost = [(i, text) for i, text in before if not _carried(facts, b, text)]
        if not lost:
            continue
        yield facts.finding(
            "hook-silent-after-compaction", "memory", "cause", [lost[-1][0], reruns[0]],
            f"the start hook attached instructions at line {facts.log.lines[lost[-1][0]]}; after the compaction at line "
            f"{facts.log.lines[b]} it ran again (line {facts.log.lines[reruns[0]]}) and attached nothing, and the summary does not "
            "repeat them",
            fate="hidden", remedy="let the hook print its text for the source \"compact\" as well, or put the rules into a resident file",
        )  # fmt: skip


def _attached(facts: Facts, i: int) -> list[str]:
    """Texts that a hook's attachment gave the model."""
    if _kind(facts, i) != "attachment/hook_additional_context":
        return []
    content = _inner(facts, i).get("content")
    return [text for text in strings(content) if text.strip()]


def _carried(facts: Facts, b: int, text: str) -> bool:
    """Whether the summary repeats the text: whole, or each of its sentences."""
    row = facts.summary_of(b)
    event = facts.message(row) if row is not None else None
    if event is None:
        return True
    summary = " ".join(part for block in event.content for part in strings(block))
    sentences = [s.strip() for s in text.replace("\n", ". ").split(". ") if len(s.strip()) > 15]
    return all(finder(sentence.rstrip("."))(summary) for sentence in sentences)


def _kind(facts: Facts, i: int) -> str:
    event = facts.events[i]
    return event.kind if isinstance(event, ForeignRow) else ""


def _event(facts: Facts, i: int) -> str:
    return str(_inner(facts, i).get("hookEvent") or "")


def _inner(facts: Facts, i: int) -> dict[str, Any]:
    event = facts.events[i]
    inner = event.data.get("attachment") if isinstance(event, ForeignRow) and isinstance(event.data, dict) else None
    return inner if isinstance(inner, dict) else {}
