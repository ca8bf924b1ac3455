"""Fork, rewind, retention: a shared past that costs nothing and survives its parent."""

from __future__ import annotations

import os
import shutil

import pytest

import nova_nb as nova
from nova_nb.errors import SessionNotFound, UsageError
from nova_nb.history import library, retention
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, ToolResultExternalized
from nova_nb.history.reading import read

from .helpers import log_of, say, session, words
from .worlds import fold


def spilled(live, id, text):
    """A call whose result was written to a file."""
    say_call = [{"type": "tool_use", "id": id, "name": "read", "input": {}}]
    live.append(MessageAppended(id=live.new_id(), parent=live.head, role="assistant", content=say_call))
    name = live.artifacts.write(id, text)
    live.append(ToolResultExternalized(id=live.new_id("x"), tool_use_id=id, artifact=name, chars=len(text)))
    result = [{"type": "tool_result", "tool_use_id": id, "content": f"preview, whole in {name}"}]
    meta = {"externalized": {id: name}}
    live.append(MessageAppended(id=live.new_id(), parent=live.head, role="user", content=result, meta=meta))
    return name


def compact(live, *kept):
    summary = [{"type": "text", "text": "summary"}]
    live.append(CompactionBoundaryCreated(id=live.new_id("c"), logical_parent=live.head, content=summary, kept=list(kept)))


def test_a_fork_has_the_parents_request_and_goes_its_own_way(tmp_path):
    parent = session(tmp_path, "one", "two", "three")
    fork = library.fork(parent.session_id, home=tmp_path, ids=parent._source)
    assert fork.session_id != parent.session_id
    assert fold(fork.events).request().canonical == fold(parent.events).request().canonical
    say(fork, "mine")
    say(parent, "yours")
    assert words(fork) == ["one", "two", "three", "mine"]
    fork.close()
    assert words(library.resume(fork.session_id, tmp_path)) == ["one", "two", "three", "mine"]
    assert [m["content"][0]["text"] for m in nova.open_session(log_of(fork)).request().messages] == [
        "one",
        "two",
        "three",
        "mine",
    ]


def test_a_fork_from_a_node_behind_a_boundary_sees_what_was_there(tmp_path):
    parent = session(tmp_path, "one", "two", "three")
    node = parent.chain[1].id
    compact(parent)
    say(parent, "after")
    fork = library.fork(parent.session_id, node, tmp_path)
    assert words(fork) == ["one", "two"]
    with pytest.raises(UsageError, match="no message 'nope'"):
        library.fork(parent.session_id, "nope", tmp_path)


def test_a_fork_adds_no_bytes_of_history(tmp_path):
    sizes = []
    for count in (10, 3_000):
        parent = session(tmp_path / str(count))
        for n in range(count):
            say(parent, f"text {n} " + "x" * 500)
        compact(parent)
        say(parent, "now")
        fork = library.fork(parent.session_id, home=tmp_path / str(count))
        files = [p for p in fork.directory.rglob("*") if p.is_file() and p.stat().st_nlink == 1]
        sizes.append(sum(p.stat().st_size for p in files))
        assert os.path.samefile(fork.directory / "past" / "1.jsonl", log_of(parent))
    assert abs(sizes[0] - sizes[1]) < 50


@pytest.mark.parametrize("how", ["retention", "by hand"])
def test_a_fork_survives_the_deletion_of_its_parent(tmp_path, how):
    parent = session(tmp_path, "one")
    old = spilled(parent, "toolu_old", "long ago " * 9)
    compact(parent)
    name = spilled(parent, "toolu_1", "the whole result")
    fork = library.fork(parent.session_id, home=tmp_path, ids=parent._source)
    grandchild = library.fork(fork.session_id, home=tmp_path, ids=parent._source)
    before = fold(grandchild.events).request().canonical
    for live in (parent, fork, grandchild):
        live.close()
    for live in (parent, fork):
        if how == "retention":
            retention.delete(live.session_id, tmp_path)
        else:
            shutil.rmtree(live.directory)
    back = library.resume(grandchild.session_id, tmp_path)
    assert fold(back.events).request().canonical == before
    assert back.artifacts.read(name).text == "the whole result"
    assert back.artifacts.state(old) == ("present" if how == "retention" else "missing")
    (stored,) = retention.sessions(tmp_path)
    assert (stored.parent, stored.parent_state) == (fork.session_id, "gone")


def test_a_fork_whose_past_is_lost_says_so_and_opens(tmp_path):
    parent = session(tmp_path, "one")
    fork = library.fork(parent.session_id, home=tmp_path, ids=parent._source)
    say(fork, "mine")
    fork.close()
    parent.close()
    shutil.rmtree(parent.directory)
    shutil.rmtree(fork.directory / "past")
    assert [d.kind for d in read(log_of(fork)).damage] == ["lost-past"]
    assert words(library.resume(fork.session_id, tmp_path)) == ["mine"]


def test_lineage_is_recorded_both_ways(tmp_path):
    parent = session(tmp_path, "one")
    fork = library.fork(parent.session_id, home=tmp_path, ids=parent._source)
    assert retention.lineage(parent.session_id, tmp_path) == ([], [fork.session_id])
    assert retention.lineage(fork.session_id, tmp_path) == ([parent.session_id], [])


def test_rewinding_past_a_compaction_brings_the_originals_back(tmp_path):
    live = session(tmp_path, "one", "two")
    node = live.head
    compact(live)
    say(live, "after")
    live.close()
    back = library.resume(live.session_id, tmp_path)
    assert words(back) == ["summary", "after"]
    back.rewind(node)
    assert back.reloads == 1
    assert words(back) == ["one", "two"]
    say(back, "other")
    back.close()
    assert words(library.resume(live.session_id, tmp_path)) == ["one", "two", "other"]


def test_a_resume_reads_no_more_than_the_active_chain(tmp_path):
    live = session(tmp_path)
    for n in range(500):
        say(live, f"old {n}")
    kept = live.head
    compact(live, kept)
    say(live, "new")
    live.close()
    back = library.resume(live.session_id, tmp_path)
    assert words(back) == ["summary", "old 499", "new"]
    assert len(back.events) < 10
    back.load_older()
    assert len(back.events) == len(read(log_of(live)).events)


def test_an_abandoned_branch_is_summarised_into_the_one_gone_to(tmp_path):
    live = session(tmp_path, "one", "two", "three")
    left = live.head
    live.rewind(live.chain[0].id)
    live.append(library.branch_summary(live, left, "Two and three led nowhere."))
    assert words(live) == ["one", "Two and three led nowhere."]
    assert live.chain[-1].meta["branch"] == {"left": left, "messages": ["m2", "m3"]}


def test_sessions_are_listed_archived_restored_and_deleted(tmp_path):
    first = session(tmp_path, "hello there")
    second = session(tmp_path, "second", ids=first._source)
    for live in (first, second):
        live.close()
    listed = {s.session: s for s in retention.sessions(tmp_path)}
    assert listed[first.session_id].title == "hello there"
    assert listed[first.session_id].size == log_of(first).stat().st_size
    retention.archive(first.session_id, tmp_path)
    assert [s.session for s in retention.sessions(tmp_path)] == [second.session_id]
    assert [s.session for s in retention.sessions(tmp_path, archived=True)] == [first.session_id]
    retention.restore(first.session_id, tmp_path)
    retention.delete(first.session_id, tmp_path)
    with pytest.raises(SessionNotFound, match=second.session_id):
        library.resume(first.session_id, tmp_path)
