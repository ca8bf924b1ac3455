"""Layer "provider": rows that are whole and paired, and that an API refuses all the same.

Knows: two shapes that the Anthropic API refuses. Only what the next request would carry counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import Facts
from ..fate import strings
from ..report import Finding

REPLACED = "\ufffd"
"""How the reader shows half a character."""


def lone_surrogate(facts: Facts) -> Iterator[Finding]:
    """Half a character in a row that the next request carries: text cut inside a surrogate pair is no valid Unicode."""
    halved = {damage.line for damage in facts.log.damage if damage.kind == "surrogate"}
    for i in facts.path:
        event = facts.message(i)
        if event is None or facts.log.lines[i] not in halved or i not in facts.in_request:
            continue
        block = next((b for b in event.content if any(REPLACED in text for text in strings(b))), None)
        if block is not None:
            yield facts.finding(
                "half-a-character", "provider", "cause", [i],
                f"a {block.get('type')} at line {facts.log.lines[i]} holds half a character (a surrogate without its other half), as a "
                "cut in the middle of an emoji leaves it; the API refuses every request that carries it",
                fate="intact", remedy="drop the half character in a copy, or continue from the turn before",
            )  # fmt: skip


def emptied_thinking(facts: Facts) -> Iterator[Finding]:
    """Signed thinking stored without its text, in an answer whose tool loop is still open, and a refusal that says so."""
    refusals = [i for i in facts.conversation if _refused(facts, i)]
    if not refusals:
        return
    before = [a for a in facts.answers if a.rows[0] < refusals[0]]
    if not before:
        return
    for i in before[-1].rows:
        event = facts.message(i)
        for block in event.content if event is not None else ():
            if block.get("type") == "thinking" and not block.get("thinking") and block.get("signature"):
                yield facts.finding(
                    "emptied-thinking", "provider", "cause", [i],
                    f"the latest answer begins with signed thinking whose text is stored empty (line {facts.log.lines[i]}); sent back "
                    f"like that it counts as modified, and the API refuses (line {facts.log.lines[refusals[0]]})",
                    certainty="proved", fate="lost",
                    remedy="leave the thinking out together with the open tool loop, or continue from the turn before",
                )  # fmt: skip
                return


def _refused(facts: Facts, i: int) -> bool:
    event = facts.message(i)
    if event is None or not event.meta.get("api_error"):
        return False
    text = " ".join(text for block in event.content for text in strings(block))
    return "thinking" in text and ("cannot be modified" in text or "must remain" in text or "invalid_request" in text)
