"""A repaired copy is better and never a guess; the original is never touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.diagnosis.repair import repair
from nova_nb.errors import UsageError

CASES = Path(__file__).parent / "cases"


def case(name: str) -> Path:
    folder = CASES / name
    return folder / json.loads((folder / "expected.json").read_text())["open_file"]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("parent-never-written", 11, 27),
        ("late-permission-graft", 9, 40),
        ("second-compaction-replays", 13, 24),
        ("spliced-lines", 25, 25),
        ("nul-run-mid-file", 25, 25),
        ("dangling-logical-parent", 32, 32),
    ],
)
def test_a_copy_reaches_what_was_cut_off(tmp_path: Path, name: str, before: int, after: int):
    original = case(name)
    bytes_before = original.read_bytes()
    result = repair(nova.open_session(original), tmp_path / "copy.jsonl")
    assert (result.before.reachable, result.after and result.after.reachable) == (before, after)
    copy = nova.open_session(tmp_path / "copy.jsonl")
    assert copy.log.damage == []
    assert not copy.diagnose().causes
    assert original.read_bytes() == bytes_before
    assert all(change.certainty in ("recorded", "proved") for change in result.changes)


@pytest.mark.parametrize(
    "name",
    [
        "healthy-compaction",
        "rewind-by-the-user",
        "parallel-results-out-of-order",
        "separators-inside-strings",
        "pending-call-at-the-end",
    ],
)
def test_a_healthy_session_is_left_alone(tmp_path: Path, name: str):
    result = repair(nova.open_session(case(name)), tmp_path / "copy.jsonl")
    assert (result.path, result.changes, result.not_dared) == (None, (), ())
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_a_guess_is_named_and_left_alone(tmp_path: Path):
    result = repair(nova.open_session(case("queued-turn-on-stale-leaf")), tmp_path / "copy.jsonl")
    assert result.path is None
    assert result.not_dared
    assert list(tmp_path.iterdir()) == []


def test_a_parent_is_not_bridged_when_the_count_says_otherwise(tmp_path: Path):
    rows = [json.loads(line) for line in case("parent-never-written").read_text().splitlines()]
    ids = {row.get("uuid") for row in rows}
    broken = next(row for row in rows if row.get("parentUuid") not in ids | {None})
    for row in rows:
        if row.get("message", {}).get("id") == broken["message"]["id"]:
            row["message"]["usage"]["cache_read_input_tokens"] += 40_000
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = repair(nova.open_session(path), tmp_path / "copy.jsonl")
    assert result.path is None
    assert any("nothing proves" in text for text in result.not_dared)


@pytest.mark.parametrize("escaped", [True, False])
def test_an_id_of_any_characters_is_relinked_as_it_stands(tmp_path: Path, escaped: bool):
    rows = [json.loads(line) for line in case("parent-never-written").read_text().splitlines()]
    ids = {row.get("uuid") for row in rows}
    broken = next(n for n, row in enumerate(rows) if row.get("parentUuid") not in ids | {None})
    odd = {rows[broken]["parentUuid"]: "gone-\u202e\\g<1>é", rows[broken - 1]["uuid"]: "kept-\u00e9\\u\\1"}
    for row in rows:
        row.update({key: odd.get(row[key], row[key]) for key in ("uuid", "parentUuid") if key in row})
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows), "utf-8")
    result = repair(nova.open_session(path), tmp_path / "copy.jsonl")
    assert (result.before.reachable, result.after and result.after.reachable) == (11, 27)


def test_a_copy_never_overwrites(tmp_path: Path):
    target = tmp_path / "copy.jsonl"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        repair(nova.open_session(case("parent-never-written")), target)
    assert target.read_text() == "mine"
