"""Steps are placed with few projections, and never where the rule that places them does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import nova_nb as nova
from nova_nb.foreign.base import Step
from nova_nb.history.events import MessageAppended
from nova_nb.projection.pieces import Piece, Projection
from nova_nb.views.history import History
from nova_nb.views.picture import Picture
from nova_nb.views.request import Requests
from tests.conftest import SHARED, shared


@dataclass
class Told:
    """A session whose projections are what the test says: rows are question, answer, question, … a0 q1 a1 …"""

    lists: list[list[Piece]]
    asked: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = tuple(Step(i + 1, record=f"a{i}") for i in range(len(self.lists) - 1))

    def projection(self, step: int | None = None) -> Projection:
        self.asked.append(step)
        return Projection(self.lists[-1 if step is None else step - 1])

    def projections(self, steps):
        return ((step, self.projection(step)) for step in steps)


def piece(row: str, text: str = "", state: str = "whole") -> Piece:
    block = {"type": "text", "text": text or row}
    return Piece(row, row, "assistant" if row.startswith("a") else "user", block, (row,), state)


def talk(n: int) -> list[Piece]:
    return [piece(f"{who}{i}") for i in range(n) for who in "qa"]


def plain(n: int) -> list[list[Piece]]:
    """Step i was sent q0 a0 … qi; the next request ends with a question of its own."""
    return [[*talk(i), piece(f"q{i}")] for i in range(n)]


def cleared(n: int) -> list[list[Piece]]:
    """From step 10 on the fourth question is a placeholder, at step 4 to 9 it was whole."""
    return [
        [piece("q3", "[cleared]", "placeholder") if i >= 10 and p.key == "q3" else p for p in some]
        for i, some in enumerate(plain(n))
    ]


def left(n: int) -> list[list[Piece]]:
    """Steps 6 to 9 were on a branch; step 10 goes on from question 5."""
    lists = plain(n)
    return [*lists[:10], *([*talk(5), *(p for p in some if int(p.key[1:]) >= 10)] for some in lists[10:])]


def back(n: int) -> list[list[Piece]]:
    """From step 12 on question 2 is sent a second time, right after it."""
    return [
        [q for p in some for q in ([p, piece("q2", "again")] if i >= 12 and p.key == "q2" else [p])]
        for i, some in enumerate(plain(n))
    ]


@pytest.mark.parametrize("lists", [plain(40), cleared(40), left(40), back(40)], ids=["plain", "cleared", "left", "back"])
def test_each_step_has_its_own_pieces(lists):
    session, history, requests = Told(lists), History(), Requests()
    for i, p in enumerate(talk(40)):
        history.add(MessageAppended(id=p.key, role=p.role, content=[p.block]), i + 1)
    requests.update(session, history)
    for view, wanted in zip([*requests.steps, requests.next], lists, strict=True):
        assert [requests.pieces[i] for i in requests.epochs[view.epoch].order[: view.n]] == wanted, view.number
    assert len(session.asked) < 40
    assert len(requests.epochs) == 1 + (lists[20] != plain(40)[20])


SOME = sorted(
    str(path.relative_to(SHARED))
    for pattern in ("samples/claude-code/*.jsonl", "authentic/*/S2*/session/**/*.jsonl", "authentic/*/S4*/session/**/*.jsonl")
    for path in SHARED.glob(pattern)
    if 0 < path.stat().st_size < 1_000_000
)


@pytest.mark.shared
@pytest.mark.parametrize("name", SOME or ["samples"])
def test_each_step_of_a_real_session_has_its_own_pieces(name):
    try:
        session = nova.open_session(shared(name))
    except nova.NovaError as error:
        pytest.skip(f"no session by itself: {error}")
    picture = Picture()
    picture.update(session)
    for step in [*range(1, len(session.steps) + 1), None]:
        got = [picture.requests.pieces[i] for i in picture.order(step or len(session.steps) + 1)]
        want = session.projection(step).pieces
        assert [(p.block, p.state) for p in got] == [(p.block, p.state) for p in want], step
