"""The journal: one write a line, safe by policy, no half line whatever the disk does."""

from __future__ import annotations

import errno
import os

import pytest

from nova_nb.errors import LogWriteError, UsageError
from nova_nb.history import journal
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, Note, PromptSet, ToolStarted
from nova_nb.history.journal import Journal
from nova_nb.history.reading import read


def message(id, text="hi"):
    return MessageAppended(id=id, role="user", content=[{"type": "text", "text": text}])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_an_event_is_one_write_of_one_whole_line(path, monkeypatch):
    writes = []
    real = os.write
    monkeypatch.setattr(journal.os, "write", lambda fd, data: writes.append(bytes(data)) or real(fd, data))
    book = Journal(path)
    book.append(message("m1", "line one\nline two"))
    book.append(message("m2"))
    assert [(w.count(b"\n"), w.endswith(b'"}\n')) for w in writes] == [(1, True), (1, True)]


@pytest.mark.parametrize(("policy", "synced"), [("every", 5), ("durable", 3), ("os", 0)])
def test_the_policy_says_what_waits_for_the_disk(path, monkeypatch, policy, synced):
    calls = []
    monkeypatch.setattr(journal, "_sync", lambda fd: calls.append(fd))
    book = Journal(path, policy)
    for event in [
        message("m1"),
        ToolStarted(id="t", tool_use_id="x"),
        CompactionBoundaryCreated(id="c"),
        PromptSet(id="p"),
        Note(id="n", kind="x"),
    ]:
        book.append(event)
    assert len(calls) == synced


def test_a_policy_that_does_not_exist_is_named(path):
    with pytest.raises(UsageError, match="durable, every, os"):
        Journal(path, "sometimes")


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_the_log_whole(path, monkeypatch, room):
    book = Journal(path)
    book.append(message("m1"))
    before = path.read_bytes()
    real, left = os.write, [room]

    def full(fd, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n, left[0] = left[0], 0
        return real(fd, bytes(data)[:n])

    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(LogWriteError, match=r"m2 was not written.*No space left"):
        book.append(message("m2"))
    assert path.read_bytes() == before
    monkeypatch.undo()
    book.append(message("m3"))
    assert [e.id for e in read(path).events] == ["m1", "m3"]
    assert read(path).damage == []


def test_after_a_failed_fsync_nothing_is_taken_until_the_session_is_opened_again(path, monkeypatch):
    book = Journal(path)
    book.append(message("m1"))

    def broken(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(journal, "_sync", broken)
    with pytest.raises(LogWriteError, match="Input/output error"):
        book.append(message("m2"))
    monkeypatch.undo()
    with pytest.raises(LogWriteError, match="failed to keep"):
        book.append(message("m3"))
    book.close()
    assert [e.id for e in read(path).events] == ["m1"]
    Journal(path).append(message("m4"))
    assert [e.id for e in read(path).events] == ["m1", "m4"]


def test_when_even_the_cut_fails_the_half_line_is_sealed_at_the_next_opening(path, monkeypatch):
    book = Journal(path)
    book.append(message("m1"))
    real = os.write
    first = [True]

    def half(fd, data):
        if first.pop() if first else False:
            return real(fd, bytes(data)[:30])
        raise OSError(errno.EIO, "Input/output error")

    def no_cut(fd, size):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(journal.os, "write", half)
    monkeypatch.setattr(journal.os, "ftruncate", no_cut)
    with pytest.raises(LogWriteError):
        book.append(message("m2"))
    monkeypatch.undo()
    with pytest.raises(LogWriteError, match="nor cut back"):
        book.append(message("m3"))
    book.close()
    assert [d.kind for d in read(path).damage] == ["torn"]
    Journal(path).append(message("m4"))
    log = read(path)
    assert [e.id for e in log.events] == ["m1", "m4"]
    assert [(d.line, d.kind) for d in log.damage] == [(2, "not-json")]


def test_an_interrupt_while_the_disk_is_waited_for_forgets_nothing(path, monkeypatch):
    from nova_nb.history.live import LiveLog

    live = LiveLog(Journal(path), session_id="s")

    def interrupted(fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal, "_sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.append(message("m1"))
    monkeypatch.undo()
    assert live.head == "m1"
    live.append(MessageAppended(id="m2", parent="m1", role="user", content=[]))
    assert [e.id for e in read(path).events] == [e.id for e in live.events]
