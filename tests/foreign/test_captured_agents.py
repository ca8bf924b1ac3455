"""The proof on one captured scenario an agent and version, small enough to live here (see tests/foreign/data/captured/NOTICE.md)."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.foreign import test_codex, test_gemini, test_opencode, test_pi
from tests.foreign.captured import without_system
from tests.foreign.proof import prove

DATA = Path(__file__).resolve().parent / "data" / "captured"
RULES = {
    "codex": (test_codex.sessions, test_codex.without_made_up_ids, test_codex.said),
    "gemini": (test_gemini.sessions, test_gemini.known, test_gemini.said),
    "opencode": (test_opencode.sessions, without_system, test_opencode.said),
    "pi": (test_pi.sessions, test_pi.as_sent, test_pi.said),
}


@pytest.mark.parametrize(
    ("archive", "expected"),
    [
        ("codex-0.171.0_S2b-compact-auto", {"exact": 15}),
        ("codex-0.98.0_S5-kill9", {"exact": 10}),
        ("pi-1.6.0_S2a-compact-manual", {"exact": 14, "partial": 3}),
        ("pi-0.73.1_S2c-prompt-too-long", {"exact": 12, "partial": 1}),
        ("opencode-1.18.33_S4a-fork", {"exact": 11, "without a step": 1}),
        ("opencode-1.0.0_S5-kill9", {"exact": 10, "without a step": 5}),
        ("gemini-cli-0.61.0_S2b-compress-auto", {"exact": 14, "partial": 2}),
        ("gemini-cli-0.24.0_S5-kill9", {"exact": 10}),
    ],
)
def test_what_was_really_sent_is_rebuilt(archive: str, expected: dict[str, int], tmp_path: Path) -> None:
    with tarfile.open(DATA / f"{archive}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    agent, scenario = archive.split("_", 1)
    tally = prove(agent, *RULES[agent.split("-")[0]], folders=[tmp_path / agent / scenario])
    verdicts: Counter[str] = sum(tally.counts.values(), Counter())
    assert {k: n for k, n in verdicts.items() if not k.startswith(("baseline", "planted"))} == expected, tally.table(archive)
