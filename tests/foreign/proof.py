"""Every captured request of a scenario against the steps of its sessions, and the planted texts with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nova_nb.history.events import MessageAppended
from nova_nb.session import Session, open_session
from tests.foreign.captured import PLANTED, Tally, atoms, capture, scenarios, texts, wire

Clean = Callable[[list[Any]], list[Any]]


def words(value: Any) -> str:
    """What a body says, in an order that does not depend on how its keys are ordered."""
    if isinstance(value, dict):
        return "\n".join(words(value[key]) for key in sorted(value) if key not in ("role", "type"))
    return "\n".join(map(words, value)) if isinstance(value, list) else str(value)


def group_of(row: dict[str, Any]) -> str:
    """Which of the table's lines a captured request belongs to."""
    if row["kind"] not in ("main", "subagent"):
        return row["kind"]
    return "after compaction" if row["after_compaction"] else "after resume" if row["process"] > 1 else "live"


def prove(
    agent: str,
    sessions_of: Callable[[Path], list[Session]],
    clean: Clean,
    said: Clean = atoms,
    folders: list[Path] | None = None,
) -> Tally:
    """Compares all captured requests of an agent; each must have a step of its own."""
    tally = Tally()
    for folder in scenarios(agent) if folders is None else folders:
        sessions = sessions_of(folder)
        rebuilt = [(s, step, s.request(step.number)) for s in sessions for step in s.steps]
        taken: set[int] = set()
        for row in capture(folder):
            true = clean(wire(row["body"]))
            kind = row["kind"].replace("rcompact", "compact").replace("subagent", "main")
            free = [i for i, (_, step, _) in enumerate(rebuilt) if i not in taken and step.kind == kind]
            hit = next((i for i in free if clean(wire(rebuilt[i][2].body)) == true), None)
            near = next((i for i in free if said(rebuilt[i][2].messages) == said(true)), free[0] if free else None)
            where = f"{agent}/{folder.name} request {row['seq']} ({row['kind']})"
            at = hit if hit is not None else near
            if at is None:
                tally.add(group_of(row), "without a step", where)
                continue
            taken.add(at)
            session, step, request = rebuilt[at]
            same = said(request.messages) == said(true)
            verdict = "exact" if hit is not None and same else "same conversation" if same else "differing"
            if (
                verdict == "differing"
                and request.basis == "partial"
                and words(true).startswith(words(clean(wire(request.body))))
            ):
                verdict = "partial"
            note = "" if verdict == "exact" else f" step {step.number}: {first_difference(clean(wire(request.body)), true)}"
            tally.add(group_of(row), verdict, where + note)
            plain = said(file_order(session, step.record)) == said([r for r in true if isinstance(r, dict)])
            tally.add(group_of(row), "baseline-exact" if plain else "baseline-other", where)
            if verdict == "exact":
                shown = {k: text in texts(request.messages) for k, text in PLANTED.items()}
                expected = {k: row["visible"][k] for k in PLANTED if k in row["visible"]}
                assert {k: shown[k] for k in expected} == expected, where
    return tally


def file_order(session: Session, answer: str | None) -> list[Any]:
    """The plain reading: every record that stands in the file before the answer."""
    rows: list[Any] = []
    for event in session.log.events:
        if event.id == answer:
            break
        if isinstance(event, MessageAppended):
            rows.append({"role": event.role, "content": event.content})
    return rows


def first_difference(a: Any, b: Any, at: str = "") -> str:
    """Where two JSON values part, for a failing test's message."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                return first_difference(a.get(key), b.get(key), f"{at}.{key}")
    if isinstance(a, list) and isinstance(b, list):
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            if x != y:
                return first_difference(x, y, f"{at}[{i}]")
        if len(a) != len(b):
            return f"{at}: {len(a)} against {len(b)} entries; the first extra is {str((a[len(b) :] or b[len(a) :])[0])[:200]}"
    return f"{at}: {str(a)[:150]!r} is not {str(b)[:150]!r}"


def open_all(folder: Path, pattern: str) -> list[Session]:
    return [open_session(path) for path in sorted(folder.glob(pattern))]
