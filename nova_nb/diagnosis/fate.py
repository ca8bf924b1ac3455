"""The fate of a text: at each model call, where it was, and what moved it.

Knows: how to find a text in pieces, records and stored results, and how to name the event that
changed its state. Does not judge; a turn says what happened, not whether it was a fault.

A text is found when its words stand there in order, whatever white space is between them, after
Unicode normalisation (NFC). A paraphrase is never counted as found.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..errors import UsageError
from ..history.events import (
    Block,
    BranchSelected,
    CompactionBoundaryCreated,
    ForeignRow,
    MessageAppended,
    ProjectionCommitted,
    ProjectionUndone,
)
from ..history.log import record_id
from ..projection.pieces import Piece, Projection
from .report import Sentence
from .stored import read_stored, stored_files
from .unseen import Unseen, unseen

if TYPE_CHECKING:
    from ..foreign.base import Step
    from ..session import Session

State = Literal["whole", "preview", "summary", "memory", "disk", "unsure", "nowhere"]
"""The best place where the text is at a step:

whole    verbatim in a message of the request        disk     not in the request, but in the log or a stored result
preview  in the shown part of a stored result        unsure   a summary may carry it in other words; never claimed as seen
summary  verbatim in a summary                       nowhere  not yet said, or gone for good
memory   verbatim in an injected instruction or memory
"""

_BEST: tuple[State, ...] = ("whole", "preview", "summary", "memory")
_OF_PIECE: dict[str, State] = {
    "preview": "preview",
    "summary": "summary",
    "folded": "summary",
    "memory": "memory",
    "reminder": "memory",
}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Mention(_Frozen):
    """A record that holds the text. `line` is its physical line."""

    record: str | None
    line: int | None


class StepFate(_Frozen):
    """Where the text was when a call was made. `record` is where it stood: in the request, or on disk."""

    step: int
    kind: str
    state: State
    in_request: bool
    record: str | None = None
    line: int | None = None


class Turn(_Frozen):
    """A change of state between two calls, with the event that made it."""

    from_: State = Field(alias="from")
    to: State
    step: int
    layer: str
    record: str | None = None
    line: int | None = None
    message: Sentence


class Trace(_Frozen):
    """The fate of `text`. `steps` has one entry a model call, `turns` one a change along the main calls."""

    text: str
    first: Mention | None
    steps: tuple[StepFate, ...]
    turns: tuple[Turn, ...]

    def at(self, step: int) -> StepFate:
        """The entry of one step. Raises UsageError when there is no such step."""
        for entry in self.steps:
            if entry.step == step:
                return entry
        raise UsageError(f"there is no step {step}; this session has {len(self.steps)} model calls")

    def __str__(self) -> str:
        marks = {"whole": "█", "preview": "▓", "summary": "▒", "memory": "▒", "disk": "·", "unsure": "?", "nowhere": " "}
        strip = "".join(marks[entry.state] for entry in self.steps)
        lines = [f"{self.text!r}  |{strip}|"]
        lines += [f"  step {turn.step}: {turn.from_} → {turn.to}: {turn.message}" for turn in self.turns]
        if self.first is None and not self.turns:
            lines.append("  no record of this log holds it")
        return "\n".join(lines)


Finder = Callable[[str], bool]


def finder(text: str, regex: bool = False) -> Finder:
    """A test for "this string holds the text".

    >>> finder("never  CURRENT_TIMESTAMP")("… never\\nCURRENT_TIMESTAMP.")
    True
    """
    if not text.strip():
        raise UsageError("give a text to trace: a word, a path, a number, a sentence")
    if regex:
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise UsageError(
                f"{text!r} is no regular expression ({error}); without regex=True it is taken literally"
            ) from error
    else:
        words = unicodedata.normalize("NFC", text).split()
        needle = max(words, key=len)
        pattern = re.compile(r"\s+".join(map(re.escape, words)))

    def found(haystack: str) -> bool:
        if not haystack.isascii() and not unicodedata.is_normalized("NFC", haystack):
            haystack = unicodedata.normalize("NFC", haystack)
        return (regex or needle in haystack) and pattern.search(haystack) is not None

    return found


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value except the ids, types and signatures of blocks."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack += [v for k, v in item.items() if k not in ("type", "id", "tool_use_id", "signature", "data")]
        elif isinstance(item, list | tuple):
            stack += item


def holds(block: Block, found: Finder) -> bool:
    """Whether a block holds the text anywhere a model would read it."""
    return any(found(text) for text in strings(block))


def trace(session: Session, text: str, *, regex: bool = False) -> Trace:
    """The fate of `text` (or a regular expression) over all model calls of a session.

    Raises UsageError for an empty text or an invalid expression.
    """
    found = finder(text, regex)
    log = session.log
    mentions = _mentions(session, found)
    words = None if regex else content_words(text)
    steps = session.steps
    fates: list[StepFate] = []
    ruled_out = list(unseen(session.facts)) if mentions else []
    moved, said = _disturbances(session, steps, mentions)
    moved |= {u.step - 1 for u in ruled_out}
    for n, step in enumerate(steps):
        # A text that is whole in a request stays so while the request only grows, however often it is said again.
        if n == 0 or n in moved or steps[n - 1].kind != step.kind or (n in said and fates[-1].state != "whole"):
            hidden = frozenset(id for u in ruled_out if step.kind == "main" and u.step <= step.number for id in u.events)
            fates.append(_fate(step, session.projection(step.number), found, mentions, words, hidden, session))
        else:
            fates.append(fates[-1].model_copy(update={"step": step.number, "kind": step.kind}))
    first = min(mentions, key=lambda i: log.lines[i], default=None)
    mention = None if first is None else Mention(record=record_id(log.events[first].id), line=log.lines[first])
    return Trace(text=text, first=mention, steps=tuple(fates), turns=tuple(_turns(session, fates, ruled_out)))


def _mentions(session: Session, found: Finder) -> list[int]:
    """Positions of events that hold the text, in their own words or in the file a result was written to, in file order."""
    out = []
    stored = stored_files(session)
    for i, event in enumerate(session.log.events):
        if isinstance(event, MessageAppended):
            hit = any(holds(block, found) for block in event.content) or any(found(text) for text in strings(event.meta))
        elif isinstance(event, CompactionBoundaryCreated):
            hit = any(holds(block, found) for block in (*event.content, *event.attachment))
        elif isinstance(event, ForeignRow):
            hit = event.data is not None and any(found(text) for text in strings(event.data))
        else:
            hit = False
        if hit or (i in stored and found(read_stored(stored[i]))):
            out.append(i)
    return out


GROWING = frozenset({"claude-code", "codex", "nova", "pi"})
"""Agents that send a longer request each time, but for what a row of their log says. Of others every step is projected."""
FEW = 200
"""Up to so many calls every step is projected."""


def _disturbances(session: Session, steps: Sequence[Step], mentions: list[int]) -> tuple[set[int], set[int]]:
    """Indexes of steps before which the log does not simply go on (a boundary, a commit, another branch), and of steps
    before which the text was said. At all others the state is that of the step before: the request grew by records
    without the text."""
    log = session.log
    where = [log.index.get(step.record or "", -1) for step in steps]
    if any(i < 0 for i in where) or len(steps) < FEW or log.source.format not in GROWING:
        return set(range(len(steps))), set()
    marks: list[int] = []
    previous: str | None = None
    for i, event in enumerate(log.events):
        if isinstance(event, CompactionBoundaryCreated | ProjectionCommitted | ProjectionUndone | BranchSelected):
            marks.append(i)
        elif isinstance(event, ForeignRow):
            moved = "compact" in event.kind or "rollback" in event.kind or "rolled" in event.kind
            if moved or (event.parent is None and event.kind.startswith("system/")):
                marks.append(i)
            previous = event.id if event.parent is not None else previous
        elif isinstance(event, MessageAppended):
            if event.role == "user" and event.parent != previous and event.origin == "person":
                marks.append(i)
            previous = event.id
    return _next_steps(where, marks), _next_steps(where, mentions)


def _next_steps(where: list[int], positions: list[int]) -> set[int]:
    """The first step after each position."""
    order = sorted((i, n) for n, i in enumerate(where))
    at = (bisect_right(order, (i, len(where))) for i in positions)
    return {order[k][1] for k in at if k < len(order)}


def _fate(
    step: Step,
    projection: Projection,
    found: Finder,
    mentions: list[int],
    words: frozenset[str] | None,
    hidden: frozenset[str],
    session: Session,
) -> StepFate:
    log = session.log
    best: dict[State, Piece | None] = {}
    for piece in projection.pieces:
        if hidden and hidden.issuperset(piece.sources):
            continue
        if projection.unsure and projection.unsure.issuperset(piece.sources):
            continue  # it may not have been sent: see below
        state = _OF_PIECE.get(piece.state, "whole")
        if state not in best and holds(piece.block, found):
            best[state] = piece
            if state == "whole":
                break
    if projection.system and any(holds(block, found) for block in projection.system if isinstance(block, dict)):
        best.setdefault("memory", None)
    for state in _BEST:
        if state in best:
            in_piece = best[state]
            source = in_piece.sources[0] if in_piece is not None and in_piece.sources else None
            return _entry(step, state, True, source, session)
    here = log.index.get(step.record or "", len(log.events))
    on_disk = next((i for i in mentions if i < here), None)
    state = "nowhere" if on_disk is None else "disk"
    if (projection.unsure and any(log.events[i].id in projection.unsure for i in mentions if i < here)) or (
        on_disk is not None
        and words
        and any(may_carry(piece.block, words) for piece in projection.pieces if piece.state == "summary")
    ):
        state = "unsure"
    return _entry(step, state, False, None if on_disk is None else log.events[on_disk].id, session)


def _entry(step: Step, state: State, in_request: bool, source: str | None, session: Session) -> StepFate:
    line = None if source is None else session.log.line(source)
    record = None if source is None else record_id(source)
    return StepFate(step=step.number, kind=step.kind, state=state, in_request=in_request, record=record, line=line)


def content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{3,}", text.lower()) if word not in ("the", "and", "are", "for", "with"))


def may_carry(block: Block, words: frozenset[str]) -> bool:
    """Two thirds of the text's content words stand in a summary: it may say the same in other words."""
    have = {word for text in strings(block) for word in re.findall(r"\w{3,}", text.lower())}
    return len(words) >= 2 and len(words & have) * 3 >= len(words) * 2


def _turns(session: Session, fates: list[StepFate], ruled_out: list[Unseen]) -> Iterator[Turn]:
    main = [fate for fate in fates if fate.kind == "main"]
    before: StepFate | None = None
    for now in main:
        was: State = before.state if before else "nowhere"
        if now.state != was:
            proof = next((u for u in ruled_out if u.step == now.step and not now.in_request), None)
            if proof is None:
                yield _turn(session, before, now)
            else:
                yield _made(was, now, proof.layer, Mention(record=now.record, line=proof.line), proof.message)
        before = now


def _turn(session: Session, before: StepFate | None, now: StepFate) -> Turn:
    """Names the event between two calls that explains the change."""
    log = session.log
    was: State = before.state if before else "nowhere"
    if before is None or was == "nowhere":
        if now.in_request:
            return _made(was, now, "log", now, f"first in a request; it stands at line {now.line}")
        return _made(was, now, "projection", now, f"it is in the log (line {now.line}) but not in the request")
    verb = "changed" if now.in_request == before.in_request else "came back" if now.in_request else "left"
    boundary = _boundary_between(session, before.step, now.step)
    if boundary is not None:
        at = Mention(record=record_id(log.events[boundary].id), line=log.lines[boundary])
        return _made(was, now, "boundary", at, f"{verb} with the compaction at line {at.line}: {_held(now, before)}")
    if now.in_request:
        return _made(was, now, "projection", now, f"{verb}: in the request as {now.state}, from line {now.line}")
    kept = f"{verb} the request; the record at line {before.line} is still in the log"
    layer, message = _reason_left(session, before, now) or ("projection", kept)
    return _made(was, now, layer, before, message)


def _made(was: State, now: StepFate, layer: str, at: Mention | StepFate, message: str) -> Turn:
    return Turn(from_=was, to=now.state, step=now.step, layer=layer, record=at.record, line=at.line, message=message)


def _held(now: StepFate, before: StepFate) -> str:
    """What became of the text at a boundary, in words."""
    if now.state == "summary":
        return f"the summary holds it; the original is at line {before.line}"
    if now.state == "unsure":
        return f"the summary may hold it in other words; the original is at line {before.line}"
    if now.in_request:
        return f"it is there as {now.state}, from line {now.line}"
    return f"the summary does not hold it; the original is at line {before.line}"


def _boundary_between(session: Session, first: int, then: int) -> int | None:
    log = session.log
    a = log.index.get(session.steps[first - 1].record or "", -1)
    b = log.index.get(session.steps[then - 1].record or "", len(log.events))
    hits = [i for i in range(max(a, 0), min(b + 1, len(log.events))) if isinstance(log.events[i], CompactionBoundaryCreated)]
    return hits[-1] if hits else None


def _reason_left(session: Session, before: StepFate, now: StepFate) -> tuple[str, str] | None:
    """The format's own reason for a record that is not in the request."""
    left = session.projection(now.step).left
    for id, reason in left.items():
        if record_id(id) == before.record:
            return reason
    answer = session.steps[now.step - 1].record
    path = session.format.reachable(session.log, answer) if answer is not None else []
    if path and before.record not in {record_id(id) for id in path}:
        return "branch", f"left with its branch: the session went on from before line {before.line}, where the record stays"
    return None
