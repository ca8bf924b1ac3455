"""What came through a compaction: how many decisions, paths, numbers, commands and symbols, and thanks to what.

Knows: how to pick such facts out of what the person and the model said and what the model called
(what tools printed is left out: nobody expects a summary to repeat a dump), and where each of them
stands in the request after the compaction. A fact counts only where it stands word for word; a
sentence that a summary may carry in other words is "unsure". Which sentences are decisions is a
guess by their words (always, never, must, instead, …), and called one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from ..history.events import Block
from ..history.log import record_id
from ..projection.pieces import Piece, Projection
from .fate import content_words, may_carry, strings
from .report import inert

if TYPE_CHECKING:
    from ..session import Session
    from .facts import Facts

Kind = Literal["decisions", "paths", "numbers", "commands", "symbols"]
KINDS: tuple[Kind, ...] = ("decisions", "paths", "numbers", "commands", "symbols")

PLACES = ("tail", "attachment", "summary", "memory", "again")
"""Whom a surviving fact is credited to, in this order of rank:

tail        a message from before that was kept word for word     memory  an instruction or memory that was put in
attachment  what the agent put in by itself, such as files         again   said, called or read once more after it
summary     the summary's words
"""

_PATH = re.compile(
    r"(?<![\w/:.])(?:[A-Za-z]:)?[/\\~](?:[\w.@+-]+[/\\])+[\w.@+-]*\w|(?<![\w/])(?:[\w.@+-]+[/\\])*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w(/])"
)
_NUMBER = re.compile(r"(?<![\w./-])\d+(?:\.\d+)+(?![\w-])|(?<![\w./-])\d{3,}(?![\w/-]|\.\d)")
_SYMBOL = re.compile(
    r"\b(?:[A-Za-z]\w*\.)*(?:[a-z]+[a-z0-9]*_\w+|[A-Z]+_[A-Z0-9_]+|[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w+)\b|\b[A-Za-z_][\w.]*(?=\(\))"
)
_DECIDES = re.compile(
    r"\b(?:always|never|must|convention|decided|instead of|do not|don't|keep to|prefer|only use|from now on|agreed)\b", re.I
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*")
PATTERNS: dict[Kind, re.Pattern[str]] = {"paths": _PATH, "numbers": _NUMBER, "symbols": _SYMBOL}
SAID = ("whole", "summary", "folded")
"""Pieces whose facts are counted: what was said and called, or stood in a summary already; not what the agent put in."""
LONGEST = 300
"""Characters of a decision or command; a longer one is no single fact."""
NAMED = 20
"""Lost facts of a kind that are named; all are counted."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Survived(_Frozen):
    """The facts of one kind at one compaction. `before` = the sum of `credited`, `unsure` and `lost`."""

    kind: Kind
    before: int
    """different facts in the request before"""
    credited: dict[str, int]
    """place → how many stand word for word in a request after it, each under the first of `PLACES` that holds it"""
    unsure: int
    lost: int
    lost_facts: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """Part that survived word for word, 0 to 1; None where there was none."""
        return sum(self.credited.values()) / self.before if self.before else None


class Crossing(_Frozen):
    """One compaction: its number from 1, its record, the calls before and after it, and what came through."""

    number: int
    record: str
    line: int
    trigger: str
    before: int | None
    after: int | None
    """None: no call was made after it; then it is the next request"""
    kinds: tuple[Survived, ...]


class Survival(_Frozen):
    """The survival table of a session; `compactions` is empty where there was none.

    >>> session.survival().compactions[0].kinds[0].lost_facts      # doctest: +SKIP
    ('Convention: all timestamps are stored in UTC',)
    """

    compactions: tuple[Crossing, ...]

    def __str__(self) -> str:
        if not self.compactions:
            return "no compaction in this session"
        lines = []
        for c in self.compactions:
            lines.append(f"{_title(c)}")
            lines.append(
                f"  {'':10} {'before':>7} {'kept':>5} " + " ".join(f"{p:>10}" for p in PLACES) + f" {'unsure':>7} {'lost':>5}"
            )
            lines += [
                f"  {k.kind:10} " + " ".join(f"{cell:>{w}}" for cell, w in zip(_cells(k), _WIDTHS, strict=True))
                for k in c.kinds
            ]
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        if not self.compactions:
            return "No compaction in this session."
        lines = []
        for c in self.compactions:
            lines += [
                f"**{inert(_title(c))}**",
                "",
                "| facts | before | kept | " + " | ".join(PLACES) + " | unsure | lost | for example |",
            ]
            lines.append("|---|" + "--:|" * (len(PLACES) + 4) + "---|")
            for k in c.kinds:
                lines.append(
                    f"| {k.kind} | " + " | ".join(_cells(k)) + f" | {inert(k.lost_facts[0][:80]) if k.lost_facts else ''} |"
                )
            lines.append("")
        return "\n".join(lines)


_WIDTHS = (7, 5, *(10 for _ in PLACES), 7, 5)


def _title(c: Crossing) -> str:
    after = "the next request" if c.after is None else f"step {c.after}"
    return f"compaction {c.number} ({c.trigger or 'trigger unknown'}, line {c.line}): step {c.before} to {after}"


def _cells(k: Survived) -> tuple[str, ...]:
    share = "" if k.share is None else f"{k.share:.0%}"
    return (str(k.before), share, *(str(k.credited[p]) for p in PLACES), str(k.unsure), str(k.lost))


def survival(session: Session) -> Survival:
    """Compare the request before each compaction with the first one after it. Pure: reads the session, changes nothing."""
    facts: Facts = session.facts
    main = [(facts.log.index.get(s.record or "", -1), s.number) for s in session.steps if s.kind == "main"]
    wanted: list[tuple[int, int | None, int | None]] = []
    for b in facts.boundaries:
        earlier = [n for i, n in main if i < b]
        followed = [n for i, n in main if i > b]
        wanted.append((b, earlier[-1] if earlier else None, followed[0] if followed else None))
    steps = {n for _, before, after in wanted for n in (before, after) if n is not None}
    seen = dict(session.projections([*sorted(steps), *([None] if any(after is None for _, _, after in wanted) else [])]))
    out = []
    for number, (b, before, after) in enumerate(wanted, 1):
        event = facts.events[b]
        until = next((x for x in facts.boundaries if x > b), len(facts.events))
        old = [p.block for p in seen[before].pieces if p.state in SAID] if before is not None else []
        old += _said(facts, -1 if before is None else facts.log.index[session.steps[before - 1].record or ""] - 1, b)
        held = gathered(block for block in old if block.get("type") != "tool_result")
        places = _places(facts, b, seen[after])
        places["again"] += _said(facts, b, until)
        out.append(
            Crossing(
                number=number,
                record=record_id(event.id),
                line=facts.log.lines[b],
                trigger=getattr(event, "trigger", ""),
                before=before,
                after=after,
                kinds=tuple(_survived(kind, held.get(kind, ()), places) for kind in KINDS),
            )
        )
    return Survival(compactions=tuple(out))


def _said(facts: Facts, after: int, before: int) -> list[Block]:
    """Blocks of the conversation records between two positions; summaries are no saying again."""
    rows = (facts.message(i) for i in facts.spoken_between(after, before) if not facts.side(i))
    return [block for row in rows if row is not None and not row.meta.get("summary") for block in row.content]


def _places(facts: Facts, boundary: int, projection: Projection) -> dict[str, list[Block]]:
    places: dict[str, list[Block]] = {place: [] for place in PLACES}
    for piece in projection.pieces:
        places[_place(facts, boundary, piece)].append(piece.block)
    return places


def _place(facts: Facts, boundary: int, piece: Piece) -> str:
    if piece.state in ("summary", "folded"):
        return "summary"
    if piece.state == "memory" or (piece.state == "reminder" and ("memory" in piece.reason or "hook" in piece.reason)):
        return "memory"
    if piece.state in ("attachment", "reminder"):
        return "attachment"
    old = any((at := facts.log.index.get(id)) is not None and at < boundary for id in piece.sources)
    return "tail" if old else "again"


def _survived(kind: Kind, before: Iterable[str], places: dict[str, list[Block]]) -> Survived:
    have = {place: gathered(blocks) for place, blocks in places.items()}
    whole = {place: _plain("\n".join(text for block in blocks for text in strings(block))) for place, blocks in places.items()}
    credited = dict.fromkeys(PLACES, 0)
    missing = []
    for fact in before:
        in_words = kind in ("decisions", "commands")
        place = next((p for p in PLACES if (fact in whole[p] if in_words else fact in have[p][kind])), None)
        if place is None:
            missing.append(fact)
        else:
            credited[place] += 1
    summaries = [block for place in ("summary", "tail") for block in places[place]]
    unsure = [f for f in missing if kind == "decisions" and any(may_carry(block, content_words(f)) for block in summaries)]
    lost = [f for f in missing if f not in set(unsure)]
    count = sum(credited.values()) + len(missing)
    return Survived(
        kind=kind, before=count, credited=credited, unsure=len(unsure), lost=len(lost), lost_facts=tuple(lost[:NAMED])
    )


def gathered(blocks: Iterable[Block]) -> dict[Kind, dict[str, None]]:
    """The facts of each kind that these blocks hold, in the order in which they come first.

    >>> list(gathered([{"type": "text", "text": "Never call tax_of() in shop/cart.py, line 120."}])["symbols"])
    ['tax_of']
    """
    found: dict[Kind, dict[str, None]] = {kind: {} for kind in KINDS}
    for block in blocks:
        call = block.get("type") == "tool_use"
        for text in strings(block.get("input") if call else block):
            for kind, pattern in PATTERNS.items():
                found[kind].update(dict.fromkeys(m[0].removeprefix("./") for m in pattern.finditer(text)))
            if block.get("type") == "text":
                found["decisions"].update(dict.fromkeys(_decisions(text)))
        command = block["input"].get("command") if call and isinstance(block.get("input"), dict) else None
        if isinstance(command, str) and command.strip() and len(command) <= LONGEST:
            found["commands"][_plain(command)] = None
    return found


def _decisions(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(text):
        if len(sentence) <= LONGEST and len(sentence.split()) >= 4 and _DECIDES.search(sentence):
            yield _plain(sentence)


def _plain(text: str) -> str:
    return " ".join(text.split())
