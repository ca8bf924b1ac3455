"""The values everything else rests on: events round-trip, a chain walks, a request has canonical bytes."""

from pathlib import Path

import nova_nb as nova
from nova_nb.history import library
from nova_nb.history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    MessageAppended,
    SessionStarted,
    UnknownEvent,
    from_json,
    to_json,
)
from nova_nb.history.journal import Journal


def say(id, parent, role, text):
    return MessageAppended(id=id, parent=parent, role=role, content=[{"type": "text", "text": text}])


def test_an_event_of_a_newer_nova_is_carried_through_byte_for_byte():
    line = b'{"type":"dream_had","id":"d1","at":"","colour":"blue"}'
    event = from_json(line)
    assert isinstance(event, UnknownEvent)
    assert to_json(event) == line


def test_a_session_read_back_gives_the_request_of_its_branch(tmp_path: Path):
    journal = Journal(tmp_path / "log.jsonl")
    for event in [
        SessionStarted(id="s1", session="s1"),
        say("a", None, "user", "one"),
        say("b", "a", "assistant", "two"),
        say("c", "b", "user", "three"),
        BranchSelected(id="x", leaf="b"),
        say("d", "b", "user", "other"),
    ]:
        journal.append(event)
    journal.close()
    request = nova.open_session(tmp_path).request()
    assert [m["content"][0]["text"] for m in request.messages] == ["one", "two", "other"]
    assert request.canonical.count(b"\n") == 5


def test_a_boundary_stands_for_what_came_before_and_keeps_its_tail(tmp_path: Path):
    journal = Journal(tmp_path / "log.jsonl")
    text = [{"type": "text", "text": "summary"}]
    for event in [
        SessionStarted(id="s1", session="s1"),
        say("a", None, "user", "one"),
        say("b", "a", "assistant", "two"),
        CompactionBoundaryCreated(id="c", logical_parent="b", content=text, kept=["b"]),
        say("d", "c", "user", "three"),
    ]:
        journal.append(event)
    journal.close()
    messages = nova.open_session(tmp_path).request().messages
    assert [m["content"][0]["text"] for m in messages] == ["summary", "two", "three"]


def test_no_test_writes_into_the_home_of_who_runs_it():
    assert not library.home().is_relative_to(Path.home())
