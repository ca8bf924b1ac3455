"""The diagnosis of a session: what it holds, what is wrong, which layer caused it, and how sure that is.

Knows: the shape of the answer (a contract with notebooks and scripts) and how a verdict follows
from findings. Does not know any fault; each is a check in `nova_nb.diagnosis.checks`, and all of
them see the same `Facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from ..session import Session
    from .facts import Facts

Layer = Literal[
    "log",
    "branch",
    "boundary",
    "projection",
    "artifact",
    "pairing",
    "provider",
    "runtime",
    "memory",
    "budget",
    "cache",
    "display",
]
"""Where a cause lies:

log         bytes and records                     provider   what one API refuses
branch      which leaf                            runtime    directory, mode, process, hydration
boundary    compaction, its content, its links    memory     instructions and memories, injected or not
projection  how the log is read into a request    budget     triggers and sizes
artifact    results stored outside                cache      the prefix
pairing     calls and results                     display    the screen differs, the model does not
"""

Role = Literal["cause", "symptom", "note"]
Certainty = Literal["recorded", "proved", "inferred", "undecidable"]
Fate = Literal["lost", "unreachable", "hidden", "never-written", "intact"]
Verdict = Literal["fault", "clear", "undecidable"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


LONGEST = 700
"""Characters of a sentence; ids and names in it come from a log and can be of any length."""


def one_line(text: str, most: int = LONGEST) -> str:
    """A text as one line that no terminal obeys, at most so long: it may quote a log, and a log is hostile.

    >>> one_line("a\\x1b[2J\\nb")
    'a\N{REPLACEMENT CHARACTER}[2J b'
    """
    text = "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else f"{text[:most]} …"


def many(n: int, what: str) -> str:
    """
    >>> many(1, "record"), many(1_200, "boundary")
    ('1 record', '1,200 boundaries')
    """
    if n == 1:
        return f"1 {what}"
    return f"{n:,} {what[:-1]}ies" if what.endswith("y") else f"{n:,} {what}s"


Sentence = Annotated[str, AfterValidator(one_line)]
"""Words for a person, safe to print."""


class Finding(_Frozen):
    """One claim with its evidence. `lines` are 1-based physical lines that a person can open and see."""

    code: str
    layer: Layer
    role: Role
    certainty: Certainty
    fate: Fate | None = None
    records: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    message: Sentence
    remedy: Sentence | None = None
    because_of: str | None = None
    """code of the cause, for a symptom"""


class Counts(_Frozen):
    """Conversation records in each of the four sets; None where a figure depends on a rule that is not known."""

    on_disk: int
    reachable: int | None
    in_request: int | None
    shown: int | None


class LeafChoice(_Frozen):
    record: str | None
    line: int | None
    policy: str


class LeafReport(LeafChoice):
    """The leaf that was used, and what other rules would have chosen."""

    alternatives: tuple[LeafChoice, ...] = ()


class SessionReport(_Frozen):
    path: str
    format: str
    agent_version: str | None
    records: int
    """conversation records"""
    compactions: int = 0
    """compaction boundaries in it"""


class Diagnosis(_Frozen):
    """The answer. `verdict` is "fault" with at least one cause, "undecidable" where the log does not hold what would
    decide, else "clear".

    >>> report = session.diagnose()            # doctest: +SKIP
    >>> report.verdict, report.counts.reachable  # doctest: +SKIP
    ('fault', 2)
    """

    session: SessionReport
    verdict: Verdict
    counts: Counts
    leaf: LeafReport
    findings: tuple[Finding, ...] = Field(default=())

    @property
    def causes(self) -> tuple[Finding, ...]:
        """Findings with role "cause"."""
        return tuple(f for f in self.findings if f.role == "cause")

    def __repr__(self) -> str:
        c = self.counts
        sets = f"on disk {c.on_disk}, reachable {_or_unknown(c.reachable)}, in request {_or_unknown(c.in_request)}"
        return f"<Diagnosis {self.verdict}: {sets}, {len(self.findings)} findings>"

    def __str__(self) -> str:
        c = self.counts
        share = "?" if c.reachable is None else f"{c.reachable}"
        lines = [
            f"{self.session.path}: {self.verdict}",
            f"  on disk {c.on_disk}, reachable {share}, in the next request {_or_unknown(c.in_request)}, "
            f"shown {_or_unknown(c.shown)}",
            f"  leaf: {self.leaf.record} (line {self.leaf.line}, rule {self.leaf.policy})",
        ]
        for f in self.findings:
            where = f"line {', '.join(map(str, f.lines[:6]))}" if f.lines else "no line"
            lines.append(f"  {f.role:7} {f.layer:10} {where}: {f.message} [{f.certainty}]")
            if f.remedy:
                lines.append(f"          {'':10} {f.remedy}")
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        head = f"**{self.verdict}** · " + " · ".join(
            f"{name} {_or_unknown(value)}"
            for name, value in (
                ("on disk", self.counts.on_disk),
                ("reachable", self.counts.reachable),
                ("in request", self.counts.in_request),
                ("shown", self.counts.shown),
            )
        )
        if not self.findings:
            return head + "\n\nNothing found."
        rows = [
            f"| {f.role} | {f.layer} | {', '.join(map(str, f.lines[:6]))} | {inert(f.message)} | {f.certainty} |"
            for f in self.findings
        ]
        return "\n".join([head, "", "| role | layer | lines | what | how sure |", "|---|---|---|---|---|", *rows])


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def inert(text: str) -> str:
    """A text as one inert Markdown cell: it may quote a log, and a log is hostile."""
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("\n", " "), ("`", "'"), ("[", "\\["), ("$", "\\$")):
        text = text.replace(raw, safe)
    return text


def verdict_of(findings: tuple[Finding, ...] | list[Finding]) -> Verdict:
    """A cause makes a fault; otherwise a sign that the log cannot decide makes it undecidable.

    >>> verdict_of([])
    'clear'
    """
    if any(f.role == "cause" for f in findings):
        return "fault"
    if any(f.certainty == "undecidable" and f.role == "symptom" for f in findings):
        return "undecidable"
    return "clear"


_ORDER = {"cause": 0, "symptom": 1, "note": 2}


def diagnose(session: Session) -> Diagnosis:
    """Run every check on the session. Pure: reads the session, changes nothing."""
    from .checks import CHECKS

    facts: Facts = session.facts
    findings = [finding for check in CHECKS for finding in check(facts)]
    findings.sort(key=lambda f: (_ORDER[f.role], f.lines[:1] or (0,), f.code))
    source = session.log.source
    return Diagnosis(
        session=SessionReport(
            path=source.path,
            format=source.format,
            agent_version=source.agent_version,
            records=facts.counts.on_disk,
            compactions=len(facts.boundaries),
        ),
        verdict=verdict_of(findings),
        counts=facts.counts,
        leaf=facts.leaf,
        findings=tuple(findings),
    )
