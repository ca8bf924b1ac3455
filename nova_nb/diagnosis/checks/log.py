"""Layer "log": bytes that are no rows, and rows that are in no file.

Knows: damage named by the reader, links that lead nowhere. A line that was torn at the very end is
an ordinary interrupted write and only a note; damage in the middle hides nothing from Nova, but
readers that stop at the first bad line see only what stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...history.events import CompactionBoundaryCreated
from ..facts import Facts
from ..report import Finding, many

_SAY = {
    "nul": "is a run of NUL bytes, as an interrupted append leaves them",
    "spliced": "holds more than one record, as two writers or a lost line end leave them",
    "torn": "ends in the middle of a record",
    "not-json": "is no record that can be read",
    "not-utf8": "holds bytes that are no UTF-8; they were replaced to read the rest",
    "too-deep": "is nested too deeply to be a record",
    "not-a-record": "is JSON, but no record",
    "checksum": "was changed after it was written: its checksum differs",
    "lost-past": "names the session that this one was forked from, whose log is gone: what came before the fork is lost",
}

_GO_ON = "readers that stop at a bad line lose all that follows; read with one that goes on, or repair into a new file"
_REMEDY = {
    "checksum": "it is used as it stands now; what it said before is in a backup at best",
    "lost-past": "put that session's folder back beside this one, and open it again",
}


def damaged_lines(facts: Facts) -> Iterator[Finding]:
    """A physical line that is not one record."""
    last = max(facts.log.lines, default=0)
    for damage in facts.log.damage:
        if damage.kind == "surrogate":
            continue  # whole as a row; whether an API refuses it is the provider layer's question
        at_end = damage.kind == "torn" and damage.line >= last
        rescued = f"; Nova read {many(damage.recovered, 'record')} on it all the same" if damage.recovered else ""
        lost = damage.kind == "lost-past" or (damage.kind in ("not-json", "too-deep", "torn") and not damage.recovered)
        yield Finding(
            code=f"{damage.kind}-line",
            layer="log",
            role="note" if at_end or damage.kind == "not-utf8" else "cause",
            certainty="recorded",
            fate="never-written" if at_end else "lost" if lost else "intact",
            records=facts.ids(facts.on_line(damage.line)),
            lines=(damage.line,),
            message=f"line {damage.line} {_SAY.get(damage.kind, damage.message)}{rescued}",
            remedy="nothing that was acknowledged is missing" if at_end else _REMEDY.get(damage.kind, _GO_ON),
        )


def parent_never_written(facts: Facts) -> Iterator[Finding]:
    """The active branch ends at a row whose parent is in no file, with conversation before it that it cuts off."""
    if not facts.path:
        return
    first = min(facts.links)
    start = next((i for i in facts.path if _dangles(facts, i)), None) if not _dangles(facts, facts.path[0]) else facts.path[0]
    if start is None:
        start = next((i for i in sorted(facts.links) if _dangles(facts, i)), None)
    if start is None:
        return
    cut = [i for i in facts.conversation if i < start and i not in facts.reachable and not facts.side(i)]
    cut = [i for i in cut if not _behind_boundary(facts, i, start)]
    if not cut:
        missing = facts.parent(start)
        if start == first:
            yield facts.finding(
                "starts-elsewhere", "log", "note", [start],
                f"the file begins in the middle of a conversation: line {facts.log.lines[start]} names a parent ({missing}) "
                "that is in another file or was not copied",
                fate="intact",
            )  # fmt: skip
        return
    yield facts.finding(
        "parent-never-written", "log", "cause", [start],
        f"line {facts.log.lines[start]} names a parent ({facts.parent(start)}) that is in no row, so a walk from the end stops there "
        f"and cuts off {many(len(cut), 'conversation record')} before it (lines {facts.log.lines[cut[0]]} to "
        f"{facts.log.lines[cut[-1]]}), which stay on disk, unreachable",
        fate="unreachable",
        remedy="a repair bridges it to the record just before it where the counted input proves that link; else it would be a guess",
    )  # fmt: skip
    yield facts.finding(
        "cut-off", "branch", "symptom", cut[-1:],
        f"the active branch does not hold {many(len(cut), 'record')} before that line", fate="unreachable", because_of="parent-never-written",
    )  # fmt: skip


def _dangles(facts: Facts, i: int) -> bool:
    parent = facts.parent(i)
    return parent is not None and parent not in facts.position


def _behind_boundary(facts: Facts, i: int, start: int) -> bool:
    """Whether a boundary stands between a record and the row where the walk ended: then it is meant to be cut off."""
    return any(i < b <= start for b in facts.boundaries if isinstance(facts.events[b], CompactionBoundaryCreated))
