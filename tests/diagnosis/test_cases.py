"""Every planted fault gets its verdict, its layer and its line, and no healthy session gets a cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nova_nb as nova
from nova_nb.diagnosis.report import Diagnosis, diagnose

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/expected.json"))


def judge(report: Diagnosis, expected: dict[str, Any]) -> list[str]:
    """What is wrong with an answer; [] for a right one."""
    wrong = []
    accepted = [expected["verdict"], *expected.get("verdict_also", [])]
    if report.verdict not in accepted:
        wrong.append(f"verdict {report.verdict}, not {accepted}")
    layers = expected["cause_layers"]
    right = [f for f in report.findings if f.layer in layers and (f.role == "cause" or report.verdict != "fault")]
    if layers and not right:
        wrong.append(f"nothing found in {layers}")
    keys = {*expected["key_lines"], *expected.get("key_records", [])}
    if layers and keys and not any(keys & {*f.lines, *f.records} for f in right):
        wrong.append(f"none of {keys} is named")
    wrong += [
        f"{name}: {getattr(report.counts, name)}, not {value}"
        for name, value in expected["counts"].items()
        if getattr(report.counts, name) != value
    ]
    for claim in expected["must_not"]:
        wrong += [
            f"false alarm {f.code}: {claim}"
            for f in report.findings
            if all(getattr(f, key) == value for key, value in claim.items())
        ]
    return wrong


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_right_diagnosis(case: Path):
    expected = json.loads((case / "expected.json").read_text())
    before = {path: path.read_bytes() for path in case.rglob("*") if path.is_file()}
    report = diagnose(nova.open_session(case / expected["open_file"]))
    assert judge(report, expected) == []
    assert before == {path: path.read_bytes() for path in case.rglob("*") if path.is_file()}, "opening a session changed it"


def test_a_heavy_row_that_the_model_never_saw_is_no_fault(tmp_path: Path):
    case = next(path for path in CASES if path.name == "parallel-results-out-of-order")
    rows = [json.loads(line) for line in next(case.glob("*.jsonl")).read_text().splitlines()]
    result = next(row for row in rows if "toolUseResult" in row)
    result["toolUseResult"] = {"originalFile": "x = 1\n" * 500_000}
    path = tmp_path / "heavy.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = diagnose(nova.open_session(path))
    assert report.verdict == "clear"
    assert report.causes == ()


def test_every_finding_names_a_line_that_a_person_can_open():
    for case in CASES:
        expected = json.loads((case / "expected.json").read_text())
        file = case / expected["open_file"]
        last = file.read_bytes().count(b"\n") + 1
        for finding in diagnose(nova.open_session(file)).findings:
            assert finding.lines, (case.name, finding.code)
            assert all(1 <= line <= last for line in finding.lines), (case.name, finding.code)


def test_a_result_in_the_agents_own_store_is_not_gone_because_that_store_was_temporary(tmp_path: Path):
    case = next(path for path in CASES if path.name == "spill-in-tmp-gone")
    text = next(case.glob("*.jsonl")).read_text()
    assert [f.code for f in diagnose(nova.open_session(next(case.glob("*.jsonl")))).causes] == ["stored-result-gone"]
    path = tmp_path / "copied.jsonl"
    first = text.index("saved to: ") + len("saved to: ")
    folder = text[first : text.index("\\n", first)].rpartition("/")[0]
    path.write_text(
        text.replace(folder, "/tmp/home/.claude/projects/-workspace-shop/5e551011/tool-results").replace(
            '"is_error":true', '"is_error":false'
        )
    )
    assert [f.code for f in diagnose(nova.open_session(path)).causes] == []


def test_counts_that_do_not_follow_the_rows_are_no_witness(tmp_path: Path):
    """Usage from another source (a proxy, a scripted server) proves nothing of what was sent."""
    rows = [
        json.loads(line) for line in next((CASES[0].parent / "healthy-compaction").glob("*.jsonl")).read_text().splitlines()
    ]
    path = tmp_path / "noise.jsonl"
    for n, row in enumerate(rows):
        if "usage" in row.get("message", {}):
            row["message"]["usage"] = {"input_tokens": (n * 7_919) % 60_000 + 10, "output_tokens": 5}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = diagnose(nova.open_session(path))
    assert report.verdict == "clear"
    assert [f.code for f in report.findings if f.role != "note"] == []
