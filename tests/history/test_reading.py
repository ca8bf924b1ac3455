"""Reading: every byte is read or named, nothing is fatal, and one bad line costs no other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_nb.history import library
from nova_nb.history.events import MessageAppended, UnknownEvent
from nova_nb.history.journal import encode
from nova_nb.history.lines import recover
from nova_nb.history.reading import decode, read

from .helpers import log_of, say, session, words


def broken(tmp_path, change):
    """A session of five messages with its middle one (line 4) changed on disk; its log and the ids."""
    live = session(tmp_path, "one", "two", "three", "four", "five")
    live.close()
    rows = log_of(live).read_bytes().splitlines(keepends=True)
    rows[3] = change(rows[3])
    log_of(live).write_bytes(b"".join(rows))
    return live


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("nul", lambda row: row.replace(b"three", b"\0" * 5)),
        ("not-utf8", lambda row: row.replace(b"three", b"\xff\xfe")),
        ("surrogate", lambda row: row.replace(b"three", b"\\ud83d")),
        ("checksum", lambda row: row.replace(b"three", b"eerht")),
        ("not-json", lambda row: row.replace(b'"content":[', b'"content":[[[')),
        ("not-json", lambda row: row[:70] + b'"' * 9 + row[79:]),
        ("too-deep", lambda row: row.replace(b'"three"', b"[" * 200_000)),
    ],
)
def test_a_damaged_message_keeps_its_place_in_the_chain_and_is_named(tmp_path, kind, change):
    live = broken(tmp_path, change)
    log = read(log_of(live))
    assert [(d.line, d.kind) for d in log.damage] == [(4, kind)]
    back = library.resume(live.session_id, tmp_path)
    assert [t for t in words(back) if t in ("one", "two", "four", "five")] == ["one", "two", "four", "five"]
    assert len(back.chain) == 5
    note = back.events[-1]
    assert (note.kind, note.meta) == ("damaged_line", {"line": 4, "kind": kind})
    back.close()
    assert library.resume(live.session_id, tmp_path).events[-1].id == note.id  # said once


def test_two_records_on_a_line_are_both_read(tmp_path):
    live = broken(tmp_path, lambda row: row[:-1])
    log = read(log_of(live))
    assert [(d.line, d.kind, d.recovered) for d in log.damage] == [(4, "spliced", 2)]
    assert len(library.resume(live.session_id, tmp_path).chain) == 5


def test_separators_that_other_splitters_cut_at_stay_in_their_line(tmp_path):
    live = session(tmp_path, "a\u2028b\u2029c\x85d\x0be\x0cf\rg")
    live.close()
    assert words(library.resume(live.session_id, tmp_path)) == ["a\u2028b\u2029c\x85d\x0be\x0cf\rg"]
    assert read(log_of(live)).damage == []


def test_a_line_of_twelve_megabytes_is_read_from_both_ends(tmp_path):
    text = "x" * 12_000_000
    live = session(tmp_path, "one", text, "three")
    live.close()
    assert [len(t) for t in words(library.resume(live.session_id, tmp_path))] == [3, 12_000_000, 5]
    assert len(read(log_of(live)).events) == 4


def test_more_than_a_hundred_thousand_events_keep_their_order(tmp_path):
    live = session(tmp_path)
    ids = [say(live, str(n)) for n in range(100_500)]
    live.close()
    back = library.resume(live.session_id, tmp_path)
    assert [n.id for n in back.chain] == ids
    say(back, "more")
    back.close()


def test_an_unknown_event_survives_a_resume_byte_for_byte(tmp_path):
    live = session(tmp_path, "one")
    live.append(decode(b'{"type":"dream_had","id":"d1","colour":"blue"}')[0][0])
    say(live, "two")
    live.close()
    event = next(e for e in library.resume(live.session_id, tmp_path).events if isinstance(e, UnknownEvent))
    assert encode(event)[1] in log_of(live).read_bytes()


def test_an_id_that_comes_again_gets_its_line(tmp_path):
    path = tmp_path / "log.jsonl"
    row = encode(MessageAppended(id="m1", role="user", content=[]))[1]
    path.write_bytes(row + row)
    assert [e.id for e in read(path).events] == ["m1", "m1#L2"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_are_fatal(head, tail):
    for line in (head, b'{"type":"message_appended","id":"' + head, head + b'{"type":"note","id":"n","kind":"k"}' + tail):
        line = line.replace(b"\n", b"")
        events, kind, _ = decode(line)
        assert events or kind
        recover(line)
