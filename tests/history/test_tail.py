"""Reading from the end: lines across blocks, what other branches leave out, and ids that are not plain."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_nb.history import library, tail
from nova_nb.history.chain import nodes, walk
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, Note, RequestSent, SessionStarted
from nova_nb.history.reading import read

from .helpers import log_of, say, session, words


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"\n", b"d" * 20])).map(b"".join), st.integers(1, 9))
def test_lines_come_whole_and_at_their_place_whatever_the_blocks(data, block):
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK", block)
        file.write(data)
        file.flush()
        found = [(at, bytes(line), ended) for at, line, ended in tail.rows_from_end(file.fileno(), len(data))]
    wanted, at = [], 0
    for line in data.splitlines(keepends=True):
        if line != b"\n":
            wanted.append((at, line.rstrip(b"\n"), line.endswith(b"\n")))
        at += len(line)
    assert found == wanted[::-1]


@pytest.mark.parametrize("rewound", [True, False])
@pytest.mark.parametrize("id", ["plain", 'quoted "q"', "back\\slash", "ключ", "#L3"])
def test_what_happened_on_a_branch_that_was_left_is_not_loaded_whatever_its_ids(tmp_path: Path, id: str, rewound: bool):
    live = session(tmp_path, "one")
    root = live.head
    live.append(MessageAppended(id=id, parent=root, role="user", content=[{"type": "text", "text": "left"}]))
    live.append(Note(id="on the left branch", kind="test"))
    if rewound:
        live.rewind(root)
    live.append(MessageAppended(id="two", parent=root, role="user", content=[{"type": "text", "text": "two"}]))
    live.append(Note(id="here", kind="test"))
    live.close()
    loaded = tail.load(live.directory)
    named = [e.id for e in loaded.events]
    assert "here" in named
    assert id not in named
    assert "on the left branch" not in named
    assert not loaded.whole
    again = library.resume(live.directory)
    assert words(again) == ["one", "two"]
    again.rewind(id)
    assert words(again) == ["one", "left"]
    again.close()


def test_the_last_request_of_another_branch_keeps_its_place_among_those_before_a_boundary(tmp_path: Path):
    live = session(tmp_path, "kept")
    kept = live.head
    live.append(RequestSent(id="first", step=1, leaf=kept))
    say(live, "left")
    live.append(RequestSent(id="second", step=2, leaf=live.head))
    live.rewind(kept)
    live.append(CompactionBoundaryCreated(id="c", logical_parent=kept, content=[], kept=[kept]))
    live.close()
    again = library.resume(live.directory)
    assert not again.whole
    assert again.last(RequestSent).id == "second"
    again.load_older()
    assert again.last(RequestSent).id == "second"
    again.close()


def test_a_session_with_all_its_branches_has_one_start(tmp_path: Path):
    live = session(tmp_path, "one", "two")
    child = library.fork(live.directory, home=tmp_path)
    for events in (read(log_of(child)).events, tail.load(child.directory).events, tail.load_whole(child.directory).events):
        assert [e.session for e in events if isinstance(e, SessionStarted)] == [child.session_id]
        assert walk(nodes(events), live.head)[-1].content[0]["text"] == "two"
    child.close()
    live.close()


def test_a_message_that_a_wrong_checksum_marks_is_told_in_the_order_of_the_log(tmp_path: Path):
    live = session(tmp_path, "one", "two", "three")
    live.close()
    path = log_of(live)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"one"', b'"ONE"').replace(b'"three"', b'"THREE"'))
    loaded = tail.load(live.directory)
    assert [d.line for d in loaded.damage] == [2, 4]
    assert {d.kind for d in loaded.damage} == {"checksum"}


def test_objects_that_a_program_froze_stay_frozen():
    import gc

    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with tail.uncollected():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
