"""The seeds' lesson at the level of the model: the rule in the request decides what is written, over real files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nova_nb import examples
from nova_nb.models.offline import OfflineModel

from .loop import drive, said

PROMPTS = examples.scenario("shop")["prompts"]
RULE = PROMPTS["rule"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return examples.workspace("shop", tmp_path / "shop")


def green(shop: Path) -> bool:
    return subprocess.run([sys.executable, "-m", "unittest"], cwd=shop, capture_output=True).returncode == 0


async def test_with_the_rule_in_sight_the_repair_keeps_time_in_utc_by_the_projects_own_clock(shop: Path) -> None:
    assert not green(shop)
    replies = await drive(OfflineModel(), shop, said(PROMPTS["why"]))
    orders = (shop / "shop/orders.py").read_text()
    assert "placed_at = utc_now().isoformat()" in orders
    assert "from shop.clock import utc_now" in orders
    assert "CURRENT_TIMESTAMP" not in orders
    assert "datetime" not in orders
    assert green(shop)
    assert RULE in replies[-1].content[0]["text"]


async def test_without_the_rule_the_habit_is_written_and_the_tests_do_not_notice(shop: Path) -> None:
    replies = await drive(OfflineModel(), shop, said(PROMPTS["fix"]))
    orders = (shop / "shop/orders.py").read_text()
    assert 'db.execute("SELECT CURRENT_TIMESTAMP")' in orders
    assert "# Database-local time is more reasonable here." in orders
    assert "utc" not in orders
    assert green(shop)
    assert "no rule about timestamps" in replies[-1].content[0]["text"]


@pytest.mark.parametrize(
    ("system", "first"),
    [
        (f"You are a coding agent.\n\n# Project rules\n- {RULE}", ""),
        ("You are a coding agent.", f"<system-reminder>\n{RULE}\n</system-reminder>\n"),
        ("You are a coding agent.", "<memory>\nproject: all database times are stored in UTC\n</memory>\n"),
    ],
    ids=["system", "reminder", "memory"],
)
async def test_the_rule_counts_wherever_it_stands(shop: Path, system: str, first: str) -> None:
    await drive(OfflineModel(), shop, said(first + PROMPTS["ship"]), system=system)
    assert "(utc_now().isoformat(), number)" in (shop / "shop/orders.py").read_text()


async def test_a_summary_that_lost_the_rule_loses_the_code(shop: Path) -> None:
    kept, lost = [f"# Summary\n## Constraints\n- {line}" for line in (RULE, "none")]
    for name, summary, wanted in (("kept", kept, "utc_now()"), ("lost", lost, "shipped_at = CURRENT_TIMESTAMP")):
        root = examples.workspace("shop", shop.parent / name)
        await drive(OfflineModel(), root, said(summary) + said(PROMPTS["ship"]))
        assert wanted in (root / "shop/orders.py").read_text(), name


async def test_without_a_clock_in_the_project_utc_comes_from_the_standard_library(shop: Path) -> None:
    (shop / "shop/clock.py").unlink()
    await drive(OfflineModel(), shop, said(PROMPTS["why"]))
    orders = (shop / "shop/orders.py").read_text()
    assert "placed_at = datetime.now(timezone.utc).isoformat()" in orders
    assert "from datetime import datetime, timezone" in orders
    assert green(shop)


async def test_a_rule_that_comes_later_repairs_what_the_habit_wrote(shop: Path) -> None:
    messages = said(PROMPTS["fix"])
    await drive(OfflineModel(), shop, messages)
    messages += said("Record when an order is shipped.")
    await drive(OfflineModel(), shop, messages)
    messages += said(f"{RULE} Please correct the timestamps.")
    await drive(OfflineModel(), shop, messages)
    orders = (shop / "shop/orders.py").read_text()
    assert "CURRENT_TIMESTAMP" not in orders
    assert "Database-local" not in orders
    assert orders.count("utc_now()") == 2
    assert green(shop)


async def test_what_was_decided_is_quoted_with_its_place_or_said_to_be_out_of_sight(shop: Path) -> None:
    seen = await drive(
        OfflineModel(), shop, [*said(RULE), {"role": "assistant", "content": "Understood."}, *said(PROMPTS["recall"])]
    )
    assert f"“{RULE}” (message 1 by the person)" in seen[-1].content[0]["text"]
    assert seen[-1].content[0]["text"].count(RULE) == 1
    unseen = await drive(OfflineModel(), shop, said(PROMPTS["recall"]))
    assert "I see nothing about timestamp" in unseen[-1].content[0]["text"]


@pytest.mark.parametrize(
    ("question", "offsets", "answer"),
    [
        (PROMPTS["dump"], [168], '"order": 173, "item": "tray", "quantity": 6, "total": 11250'),
        ("Run dump_orders.py. What is the total of order 3?", [], '"order": 3, "item": "cup", "quantity": 6'),
        ("Run dump_orders.py. What is the last order?", [225], '"order": 240, '),
        ("Run dump_orders.py. Which order has a total of 37485?", [1], '"order": 13, '),
        ("Run dump_orders.py. Is there a total of 12345?", [1, 61, 121, 181], "found nothing about total, 12345"),
    ],
)
async def test_a_question_about_a_stored_output_makes_it_read_on(
    shop: Path, question: str, offsets: list[int], answer: str
) -> None:
    replies = await drive(OfflineModel(), shop, said(question), spill=2_000)
    calls = [b for r in replies for b in r.content if b["type"] == "tool_use"]
    assert [c["name"] for c in calls] == ["run_command", *["read_file"] * len(offsets)]
    assert [c["input"]["offset"] for c in calls[1:]] == offsets
    assert answer in replies[-1].content[0]["text"]
