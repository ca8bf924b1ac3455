"""A report to post holds the diagnosis and nothing private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.cli import main
from nova_nb.diagnosis.share import Redactor, html, markdown

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    "private",
    [
        "ada.lovelace@example.com",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "sk-ant-api03-abcdEFGH1234567890abcdEFGH",
        "/home/ada/work/shop",
        r"C:\Users\ada\shop",
    ],
)
def test_private_text_is_taken_out(private: str):
    assert private not in Redactor()(f"before {private}/cart.py after")


def test_the_same_text_gets_the_same_word():
    hide = Redactor()
    assert hide("a@b.org and c@d.org and a@b.org") == "<mail 1> and <mail 2> and <mail 1>"


def test_ids_lines_and_plain_words_stay():
    text = "line 17 names a parent (c05ac1a7-fdb4-4027-9908-76166af7fcbf) that is in no row"
    assert Redactor()(text) == text


def test_a_report_cannot_run_what_a_log_holds(tmp_path: Path):
    rows = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "hi"}},
        {"type": "user", "uuid": "u2", "parentUuid": "<script>alert(1)</script>", "message": {"role": "user", "content": "on"}},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text(
        "".join(
            json.dumps({"sessionId": "s", "timestamp": "2026-01-01T00:00:00Z", "version": "<script>", **row}) + "\n"
            for row in rows
        )
    )
    report = nova.open_session(path).diagnose()
    assert report.findings
    assert "<script>" not in markdown(report)
    assert "<script>" not in html(report)


def test_the_page_is_set_as_a_page_with_what_was_taken_out_readable(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    said = "keep [this](javascript:alert(1)) | in ![x](https://example.com/x.png) src/app.py"
    row = {"type": "user", "uuid": "u1", "parentUuid": "gone", "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps({**row, "message": {"role": "user", "content": said}}) + "\n")
    session = nova.open_session(path)
    page = html(session.diagnose(), session.trace(said))
    assert "<h1>Session diagnosis" in page and "<h2>Fate of" in page
    assert "&lt;path 1&gt;/s.jsonl" in page and "&amp;lt;" not in page
    assert "<a " not in page and "<img" not in page


def test_the_doctor_of_a_folder_gives_a_row_a_session(capsys: pytest.CaptureFixture[str]):
    status = main(["doctor", str(CASES), "--json"])
    rows = json.loads(capsys.readouterr().out)
    expected = {p.parent.name: json.loads(p.read_text()) for p in CASES.glob("*/expected.json")}
    assert status == 1
    assert {Path(row["path"]).name for row in rows} >= {Path(e["open_file"]).name for e in expected.values()}
    assert all(row["verdict"] != "unreadable" for row in rows)


def test_the_doctor_writes_a_repair_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    case = next((CASES / "parent-never-written").glob("*.jsonl"))
    status = main(["doctor", str(case), "--repair", str(tmp_path / "copy.jsonl"), "--report", str(tmp_path / "r.md"), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert status == 1
    assert answer["repair"]["after"]["reachable"] == 27
    assert "parent-never-written" in (tmp_path / "r.md").read_text()
