"""A repaired copy of a session: only what is recorded or proved, written to a new file, and checked.

Knows: which faults a copy can mend, on what evidence, and how to see that the copy is better. The
original is never touched. What would be a guess is named and left alone:

    a line of NUL bytes           left out                                                recorded
    several records on a line     a line each; what cannot be read of it is left out      recorded
    a boundary's predecessor      its own kept tail                                       recorded
    a parent in no row            the row of the call it answers (pairing), or the row     proved
                                  before it when the provider's count grew by just that
    a late answer to an old call  moved up to its call, so that it is not the newest row   proved
    rows from before a boundary   the copy is left out, and what hangs from the row that   proved
    appended again                the newest boundary replaced hangs from its summary

A copy counts only if, read again, it reaches more records (or reads without damage), its calls and
results are as whole as before, its boundaries are the same and its branch has one root.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from ..errors import UsageError
from ..history.events import CompactionBoundaryCreated
from ..history.log import record_id
from .facts import Facts
from .repair_check import check_copy
from .report import Counts, diagnose, many

if TYPE_CHECKING:
    from ..session import Session


class Change(BaseModel):
    """One mended place. `line` is the physical line of the original."""

    model_config = ConfigDict(frozen=True)

    line: int
    record: str | None
    what: str
    certainty: str
    """"recorded" or "proved" """


class Repair(BaseModel):
    """What was done, what was not dared, and the proof. `path` is None when nothing was written."""

    model_config = ConfigDict(frozen=True)

    path: str | None
    changes: tuple[Change, ...]
    not_dared: tuple[str, ...]
    before: Counts
    after: Counts | None

    def __str__(self) -> str:
        if self.path is None:
            head = "nothing to repair" if not self.not_dared else "nothing was repaired"
        else:
            reach = f"reachable {self.before.reachable} → {self.after.reachable}" if self.after else ""
            head = f"{self.path}: {many(len(self.changes), 'change')}, {reach}"
        lines = [head]
        lines += [f"  line {c.line}: {c.what} [{c.certainty}]" for c in self.changes]
        lines += [f"  left alone: {text}" for text in self.not_dared]
        return "\n".join(lines)


@dataclass
class _Plan:
    """Edits by physical line of the original."""

    drop: set[int] = field(default_factory=set)
    split: dict[int, list[str]] = field(default_factory=dict)
    """lines with several records → ids of those that stay, in order"""
    relink: dict[int, tuple[str, str]] = field(default_factory=dict)
    """line → (old id, new id) of its parent"""
    logical: dict[int, tuple[str, str]] = field(default_factory=dict)
    move: dict[int, int] = field(default_factory=dict)
    """line → line after which it goes"""
    changes: list[Change] = field(default_factory=list)
    not_dared: list[str] = field(default_factory=list)

    def note(self, line: int, record: str | None, what: str, certainty: str) -> None:
        self.changes.append(Change(line=line, record=record, what=what, certainty=certainty))


def repair(session: Session, out: str | os.PathLike[str]) -> Repair:
    """Write a repaired copy of a Claude Code or Nova session to `out`, a file that does not exist yet.

    Returns what was done; `path` is None and no file is written when there is nothing to mend that is
    recorded or proved. Raises UsageError when `out` exists or the session's format has no repair.
    """
    target = Path(out)
    source = session.log.source
    if source.format not in ("claude-code", "nova"):
        raise UsageError(f"{source.path}: a {source.format} session cannot be repaired yet; Claude Code and Nova sessions can")
    if target.exists():
        raise UsageError(f"{target}: exists already; a repair is written to a new file, choose another name")
    facts: Facts = session.facts
    plan = _plan(facts)
    if not plan.changes:
        return Repair(path=None, changes=(), not_dared=tuple(plan.not_dared), before=facts.counts, after=None)
    origin = Path(source.path)
    origin = origin / "log.jsonl" if origin.is_dir() else origin
    data = _apply(plan, origin.read_bytes(), _nova_rows if source.format == "nova" else _rows)
    temporary = target.with_name(target.name + ".part")
    try:
        temporary.write_bytes(data)
        after, wrong = check_copy(facts, temporary)
        if wrong:
            refused = f"the copy was thrown away: {wrong}"
            return Repair(path=None, changes=(), not_dared=(*plan.not_dared, refused), before=facts.counts, after=None)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return Repair(
        path=str(target), changes=tuple(plan.changes), not_dared=tuple(plan.not_dared), before=facts.counts, after=after
    )


def _plan(facts: Facts) -> _Plan:
    plan = _Plan()
    _bytes(facts, plan)
    if facts.transcript is not None:
        _late_answers(facts, plan)
        _copies(facts, plan)
        _predecessors(facts, plan)
        _missing_parents(facts, plan)
        _left_alone(facts, plan)
    return plan


def _bytes(facts: Facts, plan: _Plan) -> None:
    by_line: dict[int, list[int]] = {}
    for i, line in enumerate(facts.log.lines):
        by_line.setdefault(line, []).append(i)
    last = max(facts.log.lines, default=0)
    for damage in facts.log.damage:
        rows = by_line.get(damage.line, [])
        if damage.kind == "torn" and damage.line >= last:
            continue
        if damage.kind == "nul" and not rows:
            plan.drop.add(damage.line)
            plan.note(damage.line, None, "a line of NUL bytes is left out", "recorded")
        elif damage.kind == "checksum" or any((m := facts.message(i)) is not None and m.meta.get("damaged") for i in rows):
            plan.not_dared.append(
                f"line {damage.line}: its words were changed or lost after it was written, and nothing here has them"
            )
        elif rows and damage.kind in ("spliced", "nul", "torn", "not-json"):
            plan.split[damage.line] = [facts.events[i].id for i in rows]
            plan.note(
                damage.line,
                record_id(facts.events[rows[0]].id),
                f"{len(rows)} records of this line get a line each",
                "recorded",
            )
        elif damage.kind == "not-json":
            plan.drop.add(damage.line)
            plan.note(damage.line, None, "a line that is no record is left out", "recorded")


def _late_answers(facts: Facts, plan: _Plan) -> None:
    from .checks.branch import late_graft

    for finding in late_graft(facts):
        call, *late = finding.lines
        for line in late:
            plan.move[line] = call
        plan.note(
            late[0],
            finding.records[1],
            f"the late answer goes up to its call at line {call}: the newest row is the conversation's end again",
            "proved",
        )


def _copies(facts: Facts, plan: _Plan) -> None:
    from .checks.boundary import replayed_from_before

    if not any(True for _ in replayed_from_before(facts)):
        return
    newest = facts.boundaries[-1]
    again = [i for i in range(len(facts.events)) if record_id(facts.events[i].id) != facts.events[i].id]
    summary = facts.summary_of(newest)
    for i in again:
        plan.drop.add(facts.log.lines[i])
    plan.note(
        facts.log.lines[again[0]],
        record_id(facts.events[again[0]].id),
        f"{len(again)} rows that stand in the file already are left out",
        "recorded",
    )
    if summary is None:
        return
    boundary = facts.events[newest]
    replaced = boundary.logical_parent if isinstance(boundary, CompactionBoundaryCreated) else None
    for i in facts.path:
        if i > newest and facts.parent(i) == replaced and replaced is not None:
            now = record_id(facts.events[summary].id)
            plan.relink[facts.log.lines[i]] = (replaced, now)
            plan.note(
                facts.log.lines[i], record_id(facts.events[i].id),
                f"hung from the row that the boundary at line {facts.log.lines[newest]} replaced; it hangs from that boundary's summary now", "proved",
            )  # fmt: skip
    first = _last_before_copy(facts, again, newest)
    for i in range(len(facts.events)):
        parent = facts.parent(i)
        if (
            first is not None
            and parent is not None
            and i > again[-1]
            and i < newest
            and parent in {record_id(facts.events[k].id) for k in again}
        ):
            plan.relink[facts.log.lines[i]] = (parent, first)
            plan.note(
                facts.log.lines[i],
                record_id(facts.events[i].id),
                "hung from the copy; it hangs from the last row before it now",
                "proved",
            )


def _last_before_copy(facts: Facts, again: list[int], newest: int) -> str | None:
    rows = [i for i in facts.conversation if i < again[0] and not facts.side(i)]
    return record_id(facts.events[rows[-1]].id) if rows else None


def _predecessors(facts: Facts, plan: _Plan) -> None:
    from .checks.boundary import dangling_logical_parent, tail_of

    for finding in dangling_logical_parent(facts):
        if finding.role != "cause":
            continue
        b = facts.log.lines.index(finding.lines[0])
        event = facts.events[b]
        tail = tail_of(event) if isinstance(event, CompactionBoundaryCreated) else None
        if (
            tail is not None
            and tail in facts.position
            and isinstance(event, CompactionBoundaryCreated)
            and event.logical_parent
        ):
            plan.logical[finding.lines[0]] = (event.logical_parent, tail)
            plan.note(
                finding.lines[0],
                record_id(event.id),
                f"its predecessor is its kept tail at line {facts.log.lines[facts.position[tail]]}",
                "recorded",
            )
        else:
            plan.not_dared.append(f"line {finding.lines[0]}: nothing records what came before this boundary")


def _missing_parents(facts: Facts, plan: _Plan) -> None:
    for i in range(len(facts.events)):
        parent = facts.parent(i)
        if (
            parent is None
            or parent in facts.position
            or facts.side(i)
            or facts.log.lines[i] in plan.drop
            or facts.message(i) is None
        ):
            continue
        call = _call_of(facts, i)
        before = next((k for k in range(i - 1, -1, -1) if facts.message(k) is not None and not facts.side(k)), None)
        if call is not None:
            now, why = call, f"answers the call at line {facts.log.lines[call]}"
        elif before is not None and _grew_from(facts, before, i):
            now, why = before, f"its counted input is that of the call before and the rows up to line {facts.log.lines[before]}"
        else:
            if before is not None:
                plan.not_dared.append(
                    f"line {facts.log.lines[i]}: its parent is in no row, and nothing proves that it followed line {facts.log.lines[before]}"
                )
            continue
        plan.relink[facts.log.lines[i]] = (parent, record_id(facts.events[now].id))
        plan.note(
            facts.log.lines[i],
            record_id(facts.events[i].id),
            f"its parent was never written; it hangs from line {facts.log.lines[now]} now: {why}",
            "proved",
        )


def _call_of(facts: Facts, i: int) -> int | None:
    """Row of the call that a result answers."""
    event = facts.message(i)
    ids = (
        {block.get("tool_use_id") for block in event.content if block.get("type") == "tool_result"}
        if event is not None
        else set()
    )
    if not ids:
        return None
    for k in facts.conversation:
        other = facts.message(k)
        if k < i and other is not None and any(b.get("type") == "tool_use" and b.get("id") in ids for b in other.content):
            return k
    return None


SLACK_TOKENS = 250
SLACK_SHARE = 0.02


def _grew_from(facts: Facts, before: int, i: int) -> bool:
    """Whether the input counted for answer `i` is the input of the answer before it, plus the rows in between."""
    now = facts.message(i)
    if now is None or now.usage is None or not now.usage.context or facts.witness is None:
        return False
    last = next(
        (k for k in range(before, -1, -1) if (m := facts.message(k)) and m.usage and m.usage.context and not facts.side(k)),
        None,
    )
    if last is None:
        return False
    event = facts.message(last)
    if event is None or event.usage is None:
        return False
    group = facts.groups.get(event.group or "", [last])
    if any(group[0] < b < i for b in facts.boundaries):
        return False
    added = sum(facts.chars[k] for k in facts.conversation if group[0] <= k <= before) / facts.witness.rate
    expected = event.usage.context + added
    return abs(now.usage.context - expected) <= max(SLACK_TOKENS, SLACK_SHARE * expected)


def _left_alone(facts: Facts, plan: _Plan) -> None:
    done = {change.line for change in plan.changes} | set(plan.move)
    for finding in diagnose(facts.session).causes:
        if not done & set(finding.lines):
            plan.not_dared.append(f"{finding.layer}, line {', '.join(map(str, finding.lines[:3]))}: {finding.message}")


def _apply(plan: _Plan, data: bytes, rows_of: Callable[[bytes], list[bytes]]) -> bytes:
    """The edited file. Lines that no edit names keep their bytes."""
    lines = data.split(b"\n")
    out: list[tuple[float, bytes]] = []
    for number, line in enumerate(lines, 1):
        if number in plan.drop:
            continue
        rows = rows_of(line) if number in plan.split else [line]
        for row in rows:
            for edits, key in ((plan.relink, "parentUuid"), (plan.logical, "logicalParentUuid")):
                if number in edits:
                    old, new = edits[number]
                    link = f'"{key}":{json.dumps(new)}'.encode()
                    row = re.sub(_link(key, old), link.replace(b"\\", b"\\\\"), row, count=1)
            place = plan.move[number] + number / (len(lines) + 1) if number in plan.move else float(number)
            out.append((place, row))
    out.sort(key=lambda item: item[0])
    return b"\n".join(row for _, row in out)


def _link(key: str, id: str) -> bytes:
    """Pattern of a member of a row, its id written with escapes or without."""
    plain, escaped = (re.escape(json.dumps(id, ensure_ascii=ascii).encode("utf-8", "surrogatepass")) for ascii in (False, True))
    return b'"%s"\\s*:\\s*(?:%s|%s)' % (key.encode(), plain, escaped)


def _nova_rows(line: bytes) -> list[bytes]:
    """The events of a damaged line of Nova's own, each with a checksum of its own."""
    from ..history.journal import encode
    from ..history.reading import decode

    return [encode(event)[1].rstrip(b"\n") for event in decode(line)[0]]


def _rows(line: bytes) -> list[bytes]:
    """The records of a damaged line as the bytes they are."""
    from ..foreign.rows import repair as read_damaged

    found, _ = read_damaged(line, 1)[:2]
    return [json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() for row in found if isinstance(row, dict)]
