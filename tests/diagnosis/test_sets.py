"""Each record that is not in a request has a chain of reasons, and the four sets are counted and told."""

from __future__ import annotations

from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.diagnosis.sets import Sets, four_sets
from nova_nb.errors import NotASession, UsageError
from nova_nb.session import Session

CASES = Path(__file__).parent / "cases"


def opened(case: str) -> Session:
    try:
        return nova.open_session(next((CASES / case).glob("*.jsonl")))
    except NotASession as error:
        pytest.skip(str(error))


def reasons(sets: Sets) -> set[tuple[str, ...]]:
    return {tuple(f"{reason.layer}: {reason.message}" for reason in chain) for chain in sets.left_out.values()}


def test_two_compactions_are_two_links_of_the_chain() -> None:
    sets = four_sets(opened("dangling-logical-parent"))
    assert sets.sentence == "32 records on disk, 32 reachable, 7 in the next request, 30 shown."
    assert reasons(sets) == {
        ("boundary: behind the compaction at line 20", "boundary: and its summary is behind the compaction at line 34"),
        ("boundary: behind the compaction at line 34",),
    }


def test_a_branch_names_the_record_where_it_leaves() -> None:
    sets = four_sets(opened("queued-turn-on-stale-leaf"))
    assert reasons(sets) == {("branch: on a branch that leaves the active one after line 12",)}
    assert {reason.line for chain in sets.left_out.values() for reason in chain} == {12}


def test_an_island_says_why_the_active_branch_begins_where_it_does() -> None:
    (chain,) = reasons(four_sets(opened("parent-never-written")))
    assert chain[0] == "branch: its chain begins at line 1, apart from the active branch"
    assert chain[1].startswith("branch: the active branch begins at line 17, whose parent ")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir() if list(path.glob("*.jsonl"))))
def test_every_record_is_in_the_request_or_has_a_reason(case: str) -> None:
    session = opened(case)
    for step in (None, *(entry.number for entry in session.steps[::4])):
        sets = four_sets(session, step)
        assert set(sets.in_request) | set(sets.left_out) == set(sets.on_disk)
        assert not set(sets.in_request) & set(sets.left_out)
        assert all(sets.left_out.values())


def test_the_face_gives_the_sets_in_one_sentence_and_names_a_step_that_is_not_there() -> None:
    session = opened("healthy-compaction")
    sets = session.sets(step=2)
    assert sets.sentence.endswith("shown.") and "in the request of step 2" in sets.sentence
    assert set(sets.left_out) == set(sets.on_disk) - set(sets.in_request)
    with pytest.raises(UsageError, match="there is no step 999"):
        session.sets(999)


def test_at_a_step_later_records_are_not_yet_there() -> None:
    session = opened("healthy-compaction")
    sets = four_sets(session, 3)
    late = [chain for id, chain in sets.left_out.items() if (session.log.line(id) or 0) > (session.steps[2].line or 0)]
    assert late
    assert {chain[0].message for chain in late} == {"written after this request"}
