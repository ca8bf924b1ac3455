"""Layer "display": the screen and the model differ, and the model is right.

Knows: rows that were sent and are not shown. Never a cause: nothing was forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...history.events import ForeignRow
from ..facts import Facts
from ..report import Finding


def delivered_not_shown(facts: Facts) -> Iterator[Finding]:
    """A message that was typed while the model worked went into the request as an attachment; the screen has no row for it."""
    said = {_plain(block.get("text")) for i in facts.conversation if facts.person(i) for block in facts.events[i].content}  # type: ignore[attr-defined]
    for i, event in enumerate(facts.events):
        if not isinstance(event, ForeignRow) or event.kind != "attachment/queued_command" or facts.side(i):
            continue
        inner = event.data.get("attachment") if isinstance(event.data, dict) else None
        prompt = inner.get("prompt") if isinstance(inner, dict) else None
        if not isinstance(prompt, str) or _plain(prompt) in said:
            continue
        yield facts.finding(
            "delivered-not-shown", "display", "note", [i],
            f"the message at line {facts.log.lines[i]} was typed while the model worked and went into the request; the screen may "
            "have no row for it", fate="intact",
        )  # fmt: skip


def _plain(text: object) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
