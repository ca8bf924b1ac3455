"""Rebuilt requests against what the provider counted: where a request grew or shrank, so did its tokens."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from nova_nb.session import Session, open_session
from tests.conftest import SHARED, shared

SESSIONS = [
    *(
        f"authentic/openhands-sdk-1.58.2/{s}/session"
        for s in ("S1-plain", "S2a-condense-manual", "S2b-condense-auto", "S3-resume")
    ),
    "authentic/mini-swe-agent-2.4.6/S1-plain/session/run1.traj.json",
    *(f"authentic/langgraph-1.2.24/{s}/session/checkpoints.sqlite" for s in ("S1-plain", "S2-summarise-remove", "S3-resume")),
    "samples/inspect/browser-2025-05.json",
    "samples/inspect/docent-intercode-ctf.eval",
    "samples/mini-swe-agent/harbor-rfc-mini-swe-agent-trajectory.json",
    "samples/openhands/v0-multi-swe-bench-output.jsonl",
]


def counted(session: Session) -> list[tuple[int, int]]:
    """(characters of the rebuilt request, tokens that the provider counted) of each main step that has both."""
    out = []
    for step in session.steps:
        if step.kind == "main" and step.usage is not None and step.usage.context:
            out.append((sum(piece.chars for piece in session.projection(step.number).pieces), step.usage.context))
    return out


@pytest.mark.shared
@pytest.mark.parametrize("name", SESSIONS)
def test_sizes_move_together(name: str) -> None:
    sizes = counted(open_session(shared(name)))
    assert len(sizes) >= 2, "no usage found"
    moves = [((b[0] - a[0]), (b[1] - a[1])) for a, b in itertools.pairwise(sizes)]
    big = [(chars, tokens) for chars, tokens in moves if abs(chars) > 400]
    assert all(chars * tokens > 0 for chars, tokens in big), moves


@pytest.mark.shared
def test_tokens_of_a_request_lie_between_the_bounds_of_its_characters() -> None:
    """Dense text takes at most two characters a token; the prompt and tools add at most 20,000 tokens."""
    for name in SESSIONS:
        if (SHARED / name).exists():
            for chars, tokens in counted(open_session(Path(SHARED / name))):
                assert chars / 8 < tokens < chars / 2 + 20_000, name
