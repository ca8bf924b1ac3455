"""Why did it forget? One text, the two check-lists of the seeds, one answer.

Knows: the order in which a person looks: was it said, is it still in the request, which layer took it
out, is it on disk, and where can it be had again. Tells loss from adherence: a text that was in the
request and was not kept to was not forgotten.

The check-lists are SPEC R11.5: projection not replayed, wrong branch, lost boundary, dead artifact
path, runtime state not restored (seed 001); evicted, summarised away, not extracted, written too
late (seed 004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from ..history.events import MemoryOperation
from .fate import Mention, Trace, Turn, finder, holds, trace
from .report import Diagnosis, Finding, Sentence, diagnose
from .stored import placeholders, stored_files

if TYPE_CHECKING:
    from ..session import Session
    from .facts import Facts

Outcome = Literal["had-it", "lost", "never-said", "unsure", "no-calls"]
"""had-it      it was in the latest request: adherence, not memory
lost        it was said and is not in the latest request
unsure      a summary may carry it in other words
never-said  it is in no record
no-calls    the log holds no model call to ask about"""


class Item(BaseModel):
    """One question of a check-list. `answer` None: the log cannot tell."""

    model_config = ConfigDict(frozen=True)

    question: str
    answer: bool | None
    evidence: Sentence


class Amnesia(BaseModel):
    """The answer to "why did it forget this?"."""

    model_config = ConfigDict(frozen=True)

    text: str
    outcome: Outcome
    answer: Sentence
    """one or two sentences for a person"""
    first: Mention | None
    visible_until: int | None
    """last main call whose request held it; None if none did"""
    layer: str | None
    """the layer that took it out"""
    left_at: Mention | None
    """the record that made it leave"""
    recoverable_from: str | None
    checklist: tuple[Item, ...]
    causes: tuple[Finding, ...]
    """causes of the session's diagnosis that explain it"""

    def __str__(self) -> str:
        marks = {True: "yes", False: "no ", None: "?  "}
        return "\n".join([self.answer, *(f"  {marks[item.answer]} {item.question} {item.evidence}" for item in self.checklist)])

    def _repr_markdown_(self) -> str:
        from .report import inert

        marks = {True: "yes", False: "no", None: "cannot tell"}
        rows = [f"| {inert(item.question)} | {marks[item.answer]} | {inert(item.evidence)} |" for item in self.checklist]
        return "\n".join([f"**{inert(self.answer)}**", "", "| question | answer | evidence |", "|---|---|---|", *rows])


def why_forgot(session: Session, text: str, *, regex: bool = False) -> Amnesia:
    """Walk the check-lists for one text.

    >>> print(session.why_forgot("UTC").answer)      # doctest: +SKIP
    'It was said at line 3 and was in every request until step 8; it left with the compaction at line 71: …'
    """
    fate = trace(session, text, regex=regex)
    report = diagnose(session)
    main = [entry for entry in fate.steps if entry.kind == "main"]
    seen = [entry.step for entry in main if entry.in_request]
    last = main[-1] if main else None
    gone = _left(fate)
    causes = _explaining(session, fate, report)
    outcome: Outcome
    if fate.first is None:
        outcome = "never-said"
    elif last is None:
        outcome = "no-calls"
    elif last.in_request:
        outcome = "had-it"
    else:
        outcome = "unsure" if last.state == "unsure" else "lost"
    layer = (
        None
        if outcome in ("had-it", "never-said", "no-calls")
        else causes[0].layer
        if causes
        else gone.layer
        if gone
        else "projection"
    )
    recover = _recover(session, fate) if outcome in ("lost", "unsure") else None
    return Amnesia(
        text=text,
        outcome=outcome,
        answer=_sentence(outcome, fate, seen, layer, causes, recover),
        first=fate.first,
        visible_until=seen[-1] if seen else None,
        layer=layer,
        left_at=Mention(record=gone.record, line=gone.line) if gone and outcome in ("lost", "unsure") else None,
        recoverable_from=recover,
        checklist=tuple(_checklist(session, fate, report, regex=regex)),
        causes=causes,
    )


def _sentence(
    outcome: Outcome, fate: Trace, seen: list[int], layer: str | None, causes: tuple[Finding, ...], recover: str | None
) -> str:
    first = f"line {fate.first.line}" if fate.first else ""
    if outcome == "never-said":
        return "It is in no record of this session, so it was never said here: nothing was forgotten. It may stand in another session, or in a prompt that no log holds."
    if outcome == "no-calls":
        return f"It stands at {first}, but the log holds no model call that could have seen it."
    if outcome == "had-it":
        last = next(entry for entry in reversed(fate.steps) if entry.kind == "main")
        return (
            f"The model had it: it was in the latest request (step {last.step}, {last.state}, from line {last.line or (fate.first and fate.first.line)}). "
            "If it was not kept to, that is adherence, not memory."
        )
    until = f"was in the request until step {seen[-1]}" if seen else "was in no request"
    turn = _left(fate)
    why = causes[0].message if causes else turn.message if turn else "no event explains it"
    again = f" It can be had again from {recover}." if recover else " Nothing on this disk holds it whole any more."
    maybe = " A summary may still carry it in other words." if outcome == "unsure" else ""
    return f"It was said at {first} and {until}; then it left (layer {layer}): {why}.{maybe}{again}"


_OUT = ("disk", "unsure", "nowhere")


def _left(fate: Trace) -> Turn | None:
    """The turn at which the text last left a request; where it never was in one, the last change at all."""
    out = [turn for turn in fate.turns if turn.to in _OUT]
    return next((turn for turn in reversed(out) if turn.from_ not in _OUT), out[-1] if out else None)


def _explaining(session: Session, fate: Trace, report: Diagnosis) -> tuple[Finding, ...]:
    """Causes that took this text out: it is not in the latest request, and they hide or lose what stood before or at their lines."""
    main = [entry for entry in fate.steps if entry.kind == "main"]
    if fate.first is None or fate.first.line is None or (main and main[-1].in_request):
        return ()
    line = fate.first.line
    return tuple(
        f
        for f in report.causes
        if f.fate in ("hidden", "unreachable", "lost", "never-written") and (not f.lines or line <= max(f.lines))
    )


def _recover(session: Session, fate: Trace) -> str | None:
    """Where the original is now."""
    if fate.first is None:
        return None
    position = session.facts.position.get(fate.first.record or "")
    stored = stored_files(session)
    if position is not None and position in stored:
        return f"the stored result {stored[position].name} (line {fate.first.line})"
    return f"line {fate.first.line} of the log"


def _checklist(session: Session, fate: Trace, report: Diagnosis, *, regex: bool) -> list[Item]:
    log, first = session.log, fate.first
    found = finder(fate.text, regex)
    by_layer = {
        layer: next((f for f in report.causes if f.layer == layer), None)
        for layer in ("projection", "branch", "boundary", "artifact", "runtime")
    }
    facts: Facts = session.facts
    at_first = facts.position.get(first.record or "") if first is not None else None
    boundary_turn = next((turn for turn in fate.turns if turn.layer == "boundary"), None)
    memory = [e for e in log.events if isinstance(e, MemoryOperation)]
    held = [e for e in memory if found(str(e.meta))]
    next_request = session.projection()
    now = any(holds(piece.block, found) for piece in next_request.pieces)

    def at(finding: Finding | None, fine: str) -> str:
        return fine if finding is None else finding.message

    spoken = at_first is not None and at_first in set(facts.conversation)
    on_branch = at_first in facts.reachable if spoken else None
    files = stored_files(session)
    dead = [path for i, path in placeholders(session) if i not in files]
    return [
        Item(
            question="Was it said at all?",
            answer=first is not None,
            evidence=f"first at line {first.line}" if first else "in no record",
        ),
        Item(question="Is it in the next request?", answer=now, evidence="verbatim" if now else "not verbatim"),
        Item(
            question="Were projections replayed as the log says?",
            answer=by_layer["projection"] is None if log.source.format == "nova" or by_layer["projection"] else None,
            evidence=at(by_layer["projection"], "nothing in this log contradicts it"),
        ),
        Item(
            question="Is its record on the active branch?",
            answer=on_branch,
            evidence=at(by_layer["branch"], "it is no conversation record" if on_branch is None else "by the leaf in use"),
        ),
        Item(
            question="Did it get over every boundary?",
            answer=by_layer["boundary"] is None
            and (boundary_turn is None or boundary_turn.to in ("whole", "summary", "memory", "preview")),
            evidence=by_layer["boundary"].message
            if by_layer["boundary"]
            else boundary_turn.message
            if boundary_turn
            else "none took it",
        ),
        Item(
            question="Do the stored results still exist?",
            answer=False if by_layer["artifact"] else None if dead else True,
            evidence=at(
                by_layer["artifact"], f"{len(dead)} are not beside this file" if dead else "all that are named, or none is"
            ),
        ),
        Item(
            question="Was the runtime state restored?",
            answer=False if by_layer["runtime"] else None,
            evidence=at(by_layer["runtime"], "nothing in this log contradicts it"),
        ),
        Item(
            question="Was it evicted from the window?",
            answer=any(turn.to in ("disk", "nowhere") and turn.from_ != "nowhere" for turn in fate.turns),
            evidence=next(
                (turn.message for turn in fate.turns if turn.to in ("disk", "nowhere") and turn.from_ != "nowhere"),
                "it never left",
            ),
        ),
        Item(
            question="Was it summarised away?",
            answer=boundary_turn is not None and boundary_turn.to in ("disk", "unsure", "nowhere"),
            evidence=boundary_turn.message if boundary_turn else "no compaction changed it",
        ),
        Item(
            question="Was it extracted into a memory?",
            answer=bool(held) if memory else None,
            evidence=f"memory operation {held[0].operation}"
            if held
            else "this log holds no memory operations"
            if not memory
            else "none names it",
        ),
        Item(
            question="Was it written before it was needed?",
            answer=None if first is None or not fate.steps else any(e.state != "nowhere" for e in fate.steps),
            evidence="it stood in the log when a call was made" if first else "in no record",
        ),
    ]
