"""Sessions with bytes and rows moved, lost, doubled and bent: every question ends in an answer, and every answer holds together."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nova_nb as nova
from nova_nb.diagnosis.repair import repair
from nova_nb.diagnosis.report import Diagnosis
from nova_nb.errors import NovaError
from nova_nb.session import Session

CASES = Path(__file__).parent / "cases"
FILES = sorted(p for p in CASES.glob("*/*.jsonl") if p.stat().st_size < 200_000)
DATA = sorted((Path(__file__).parents[2] / "nova_nb" / "data" / "sessions").glob("*.json*"))
HOSTILE = "\x1b[2J\n| <script>alert(1)</script> `x` $e^1$ \u202e [a](javascript:b)"


def mutated(lines: list[bytes], random: Random) -> list[bytes]:
    """One change of a kind that real disks, merges and old versions make, or that a hostile log would."""
    n = random.randrange(len(lines))
    m = random.randrange(len(lines))
    kind = random.choice(["cut", "swap", "double", "drop", "splice", "nul", "deep", "link", "field", "type", "id"])
    if kind == "cut":
        lines[n] = lines[n][: random.randrange(len(lines[n]) + 1)]
    elif kind == "swap":
        lines[n], lines[m] = lines[m], lines[n]
    elif kind == "double":
        lines.insert(m, lines[n])
    elif kind == "drop" and len(lines) > 1:
        del lines[n]
    elif kind == "splice":
        lines[n] += lines[m]
    elif kind == "nul":
        lines.insert(n, b"\0" * random.randrange(1, 500) + lines[n][-20:])
    elif kind == "deep":
        lines[n] = b'{"uuid":"d","message":{"role":"user","content":' + b"[" * 3_000 + b"]" * 3_000 + b"}}"
    else:
        lines[n] = bent(lines[n], kind, lines[m], random)
    return lines


def bent(line: bytes, kind: str, other: bytes, random: Random) -> bytes:
    """The row with one value changed: a link to another row (so that rings come about), or a value of another type."""
    try:
        row, far = json.loads(line), json.loads(other)
    except (ValueError, RecursionError):
        return line
    if not isinstance(row, dict) or not isinstance(far, dict):
        return line
    name = {"link": ["parentUuid", "logicalParentUuid", "parentId", "parent_id"], "id": ["uuid", "id"]}.get(kind)
    if name is not None:
        for key in name:
            if key in row:
                row[key] = far.get("uuid") or far.get("id") or row.get("uuid") or HOSTILE
    else:
        place: Any = row
        while isinstance(place, dict) and place and random.random() < 0.7:
            key = random.choice(sorted(place))
            if kind == "type" or not isinstance(place[key], dict | list):
                place[key] = random.choice([None, 7, -1.5, True, "", HOSTILE, [], {}, [[]], [None], {"type": HOSTILE}])
                break
            place = place[key][0] if isinstance(place[key], list) and place[key] else place[key]
    return json.dumps(row).encode()


def asked(session: Session, folder: Path) -> None:
    report: Diagnosis = session.diagnose()
    assert report.verdict in ("fault", "clear", "undecidable")
    assert (report.verdict == "fault") == bool(report.causes)
    for finding in report.findings:
        told(finding.message, finding.remedy)
    assert json.loads(report.model_dump_json())["counts"]
    report._repr_markdown_()
    for text in ("UTC", "no such words"):
        fate = session.trace(text)
        assert [entry.step for entry in fate.steps] == [step.number for step in session.steps]
        assert str(fate)
    answer = session.why_forgot("UTC")
    told(answer.answer)
    session.survival()._repr_markdown_()
    if session.format.name in ("claude-code", "nova"):
        done = repair(session, folder / "copy.jsonl")
        assert done.after is None or (done.after.reachable or 0) >= (done.before.reachable or 0)


def told(*texts: str | None) -> None:
    """A sentence for a person: one line, printable, and nothing of a log in it that a terminal or a page would obey."""
    for text in texts:
        if text is not None:
            assert text
            assert all(c.isprintable() for c in text), text
            assert len(text) < 1_000, text


@settings(max_examples=150, deadline=None)
@given(file=st.sampled_from(FILES), seed=st.integers(0, 2**32), changes=st.integers(1, 8))
def test_no_mutation_stops_an_answer(file: Path, seed: int, changes: int) -> None:
    random = Random(seed)
    lines = [line for line in file.read_bytes().split(b"\n") if line]
    for _ in range(changes):
        lines = mutated(lines, random)
    with TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_bytes(b"\n".join(lines) + random.choice([b"", b"\n", b"\r\n"]))
        try:
            session = nova.open_session(path)
        except NovaError:
            return
        asked(session, Path(folder))


def test_a_hostile_id_does_not_get_into_a_sentence_as_it_is(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in next((CASES / "parent-never-written").glob("*.jsonl")).read_text().splitlines()]
    ids = {row.get("uuid") for row in rows}
    for row in rows:
        if row.get("parentUuid") not in ids:
            row["parentUuid"] = HOSTILE * 200 if row.get("parentUuid") else None
    path = tmp_path / "hostile.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    session = nova.open_session(path)
    assert [f.code for f in session.diagnose().causes] == ["parent-never-written"]
    asked(session, tmp_path)


def test_rings_of_parents_end(tmp_path: Path) -> None:
    """Every row is its own parent's parent, boundaries and summaries among them."""
    rows = [json.loads(line) for line in next((CASES / "healthy-compaction").glob("*.jsonl")).read_text().splitlines()]
    ids = [row["uuid"] for row in rows if "uuid" in row]
    for shift in (0, 1, len(ids) // 2):
        for row in rows:
            if "uuid" in row:
                row["parentUuid"] = ids[(ids.index(row["uuid"]) + shift) % len(ids)]
                if "logicalParentUuid" in row:
                    row["logicalParentUuid"] = row["uuid"]
        path = tmp_path / f"ring{shift}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        asked(nova.open_session(path), tmp_path / str(shift))


@pytest.mark.parametrize("file", DATA, ids=lambda p: p.name)
def test_packaged_sessions_answer_every_question(file: Path, tmp_path: Path) -> None:
    asked(nova.open_session(file), tmp_path)
