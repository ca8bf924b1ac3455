"""What every store of events promises: `StoreContract`, passed by memory and by the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from nova_nb.errors import UsageError
from nova_nb.history.events import MessageAppended, Note, UnknownEvent, from_json, to_json
from nova_nb.history.journal import Journal
from nova_nb.history.live import LiveLog, Memory, Store
from nova_nb.history.reading import read


def message(id: str, text: str = "hi", parent: str | None = None) -> MessageAppended:
    return MessageAppended(id=id, parent=parent, role="user", content=[{"type": "text", "text": text}])


class StoreContract:
    """Subclass it with a `store` fixture."""

    def test_an_append_gives_the_event_back_and_the_store_grows(self, store: Store):
        first, second = message("m1"), message("m2")
        assert store.append(first) == first
        size = store.size
        assert size > store.at >= 0
        assert store.append(second) == second
        assert (store.at, store.size > size) == (size, True)

    def test_half_a_surrogate_pair_comes_back_as_what_will_be_read(self, store: Store):
        stored = store.append(message("m1", "half \ud83d and whole \ud83d\ude42"))
        assert stored.content[0]["text"] == "half \ufffd and whole \U0001f642"

    def test_what_is_no_json_is_refused_and_nothing_is_added(self, store: Store):
        store.append(message("m1"))
        before = store.size, store.at
        with pytest.raises(UsageError, match="m2"):
            store.append(Note(id="m2", kind="x", meta={"bad": object()}))
        assert (store.size, store.at) == before

    def test_an_event_of_a_newer_nova_is_carried(self, store: Store):
        event = from_json(b'{"type":"dream_had","id":"d1","colour":"blue"}')
        assert isinstance(store.append(event), UnknownEvent)

    def test_a_session_over_it_folds_head_and_chain(self, store: Store):
        live = LiveLog(store, session_id="s")
        live.append(message("m1"))
        live.append(message("m2", parent="m1"))
        live.rewind("m1")
        live.append(message("m3", parent="m1"))
        assert [n.id for n in live.chain] == ["m1", "m3"]
        live.close()


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return Memory()


class TestJournal(StoreContract):
    @pytest.fixture(params=["every", "durable", "os"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path):
        self.path = tmp_path / "log.jsonl"
        journal = Journal(self.path, request.param)
        yield journal
        journal.close()

    def test_what_was_appended_is_read_back_equal_and_in_order(self, store: Store):
        events = [message("m1", "\u2028 \0 \x7f é 🙂"), from_json(b'{"type":"dream_had","id":"d1","n":1}'), message("m2", "b")]
        for event in events:
            store.append(event)
        log = read(self.path)
        assert log.damage == []
        assert [to_json(e) for e in log.events] == [to_json(e) for e in events]
        assert [type(e) for e in log.events] == [type(e) for e in events]
