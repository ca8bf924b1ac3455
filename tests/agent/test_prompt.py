"""The system prompt, by SPEC R9.1."""

from __future__ import annotations

from nova_nb.agent.prompt import ROLE, RULES, WORK, system_blocks
from nova_nb.agent.tools import EIGHT


def test_r9_1_the_seven_parts_stand_in_order_and_the_first_block_is_the_same_for_every_project() -> None:
    shared, own = system_blocks(EIGHT.values(), project_rules="Use UTC.", session_context="Day two.", working_directory="shop")
    parts = [
        ROLE,
        "## Tools",
        WORK,
        RULES,
        "## Project rules\nUse UTC.",
        "## This session\nDay two.",
        "Working directory: shop",
    ]
    whole = f"{shared['text']}\n\n{own['text']}"
    places = [whole.index(part) for part in parts]
    assert places == sorted(places)
    assert places[4] > len(shared["text"])
    assert shared == system_blocks(EIGHT.values(), project_rules="Use CET.", working_directory="bank")[0]


def test_r9_1_an_absent_part_leaves_no_trace() -> None:
    (shared,) = system_blocks([], project_rules=" \n", session_context="")
    assert shared["text"] == f"{ROLE}\n\n{WORK}\n\n{RULES}"
    assert system_blocks([], working_directory="shop")[1]["text"] == "Working directory: shop"
