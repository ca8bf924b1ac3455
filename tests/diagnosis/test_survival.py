"""What came through a compaction is counted by kind, credited to what carried it, and every fact has one fate."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import nova_nb as nova
from nova_nb.diagnosis.survival import PLACES, Survival, gathered
from tests.conftest import shared

from .sessions import Claude

CASES = Path(__file__).parent / "cases"
RULE = "Always store timestamps in UTC through clock.utc_now()"


def compacted(folder: Path, summary: str, then: str = "Go on.") -> Survival:
    """A session of a few turns with one compaction; the rule and what was called stood before it."""
    rows = Claude(Random(5))
    rows.say(RULE)
    (call,) = rows.answer([{**rows.call("Bash"), "input": {"command": "pytest -q tests/test_orders.py"}}])
    rows.result(call, "4711 passed")
    rows.answer([{"type": "text", "text": "The limit of 8192 in shop/cart.py breaks tax_of()."}])
    rows.compact(summary)
    rows.say(then)
    rows.answer([{"type": "text", "text": "Done."}])
    path = folder / "session.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows.rows))
    return nova.open_session(path).survival()


def fates(found: Survival) -> dict[str, tuple[int, dict[str, int], int, int]]:
    (one,) = found.compactions
    return {k.kind: (k.before, {p: n for p, n in k.credited.items() if n}, k.unsure, k.lost) for k in one.kinds}


def test_what_the_summary_repeats_survives_and_the_rest_is_named_as_lost(tmp_path: Path) -> None:
    found = compacted(tmp_path, f"{RULE}. The bug is in shop/cart.py.")
    assert fates(found) == {
        "decisions": (1, {"summary": 1}, 0, 0),
        "paths": (2, {"summary": 1}, 0, 1),
        "numbers": (1, {}, 0, 1),
        "commands": (1, {}, 0, 1),
        "symbols": (3, {"summary": 1}, 0, 2),
    }
    lost = {k.kind: k.lost_facts for k in found.compactions[0].kinds}
    assert lost["paths"] == ("tests/test_orders.py",)
    assert lost["numbers"] == ("8192",)
    assert lost["commands"] == ("pytest -q tests/test_orders.py",)


def test_other_words_are_unsure_and_saying_it_again_is_credited(tmp_path: Path) -> None:
    other = compacted(tmp_path, "We always store all timestamps as UTC, through the clock's utc_now.")
    assert fates(other)["decisions"] == (1, {}, 1, 0)
    again = compacted(tmp_path, "Orders were looked at.", then=f"{RULE}; the limit is 8192.")
    assert fates(again)["decisions"] == (1, {"again": 1}, 0, 0)
    assert fates(again)["numbers"] == (1, {"again": 1}, 0, 0)


def test_no_compaction_is_no_table(tmp_path: Path) -> None:
    found = nova.open_session(next((CASES / "rewind-by-the-user").glob("*.jsonl"))).survival()
    assert found.compactions == ()
    assert str(found) == "no compaction in this session"


def test_facts_are_told_from_prose() -> None:
    found = gathered(
        [
            {
                "type": "text",
                "text": "Never call tax_of() in shop/cart.py: version 2.1.332, and/or port 8080 at 12 o'clock; see CartService.",
            }
        ]
    )
    assert list(found["paths"]) == ["shop/cart.py"]
    assert list(found["numbers"]) == ["2.1.332", "8080"]
    assert list(found["symbols"]) == ["tax_of", "CartService"]
    assert len(found["decisions"]) == 1


@pytest.mark.parametrize(
    "case", ["healthy-compaction", "dangling-logical-parent", "compaction-loop", "codex-static-replacement"]
)
def test_every_fact_has_one_fate(case: str) -> None:
    found = nova.open_session(next((CASES / case).glob("*.jsonl"))).survival()
    assert found.compactions
    for one in found.compactions:
        for kind in one.kinds:
            assert set(kind.credited) == set(PLACES)
            assert kind.before == sum(kind.credited.values()) + kind.unsure + kind.lost
    assert found._repr_markdown_().count("| decisions |") == len(found.compactions)


@pytest.mark.shared
def test_a_kept_tail_and_read_files_are_credited_on_a_real_compaction() -> None:
    folder = shared("authentic/claude-code-2.1.332/S2b-compact-auto/session/projects")
    found = nova.open_session(next(folder.glob("*/*.jsonl"))).survival()
    first, second = found.compactions
    assert sum(k.credited["tail"] for k in first.kinds) > 5
    assert sum(k.credited["attachment"] for k in second.kinds) > 5
