"""Laws 1 to 6 over random histories: forks, rewinds, compactions, parallel calls, open calls, resumes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_nb.history.chain import nodes, walk
from nova_nb.history.reading import read
from nova_nb.projection.pieces import messages_of
from nova_nb.projection.project import project

from .worlds import SETTINGS, World, fold, state

OPS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 40)), min_size=1, max_size=25)
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(OPS)
def test_a_resume_gives_what_the_live_session_had(ops):
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        for op, n in ops:
            world.act(op, n)
            world.resume(0)
        world.live.close()


@quick
@given(OPS)
def test_reading_from_the_end_equals_reading_everything(ops):
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        for op, n in ops:
            world.act(op, n)
        live = world.live
        before = state(live, world.projector)
        path = live.directory / "log.jsonl"
        whole = fold(read(path).events)
        assert whole.request().hash == before["request"]
        assert [n.id for n in walk(nodes(read(path).events), live.head)] == before["chain"]
        live.load_older()
        assert state(live, fold(live.events)) == before
        live.close()


@quick
@given(OPS)
def test_incremental_equals_rebuilt_and_projecting_twice_is_equal(ops):
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        for op, n in ops:
            world.act(op, n)
            live, projector = world.live, world.projector
            started = [e.tool_use_id for e in live.events if type(e).__name__ == "ToolStarted"]
            pieces = project(live.chain, SETTINGS, commits=projector.commits, started=started).pieces
            assert messages_of(pieces) == projector.request().messages
            assert fold(live.events).request().canonical == projector.request().canonical
        world.live.close()


@quick
@given(OPS)
def test_the_log_only_grows(ops):
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        files: dict[Path, bytes] = {}
        for op, n in ops:
            world.act(op, n)
            for path, before in files.items():
                assert path.read_bytes().startswith(before)
            for path in Path(home).glob("sessions/*/log.jsonl"):
                files[path] = path.read_bytes()
        world.live.close()


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 40)), min_size=1, max_size=60))
def test_a_resume_gives_what_the_live_session_had_for_long(ops):
    test_a_resume_gives_what_the_live_session_had.hypothesis.inner_test(ops)
