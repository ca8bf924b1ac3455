"""LiveLog: an append reaches the store, then the state, then who watches."""

import pytest

from nova_nb.errors import UsageError
from nova_nb.history.events import BranchSelected, CompactionBoundaryCreated, MessageAppended
from nova_nb.history.live import LiveLog
from nova_nb.ids import Fixed


def say(live: LiveLog, text: str, role: str = "user") -> str:
    block = {"type": "text", "text": text}
    return live.append(MessageAppended(id=live.new_id(), parent=live.head, role=role, content=[block])).id


def test_the_chain_follows_appends_rewinds_and_boundaries():
    live = LiveLog(session_id="s", ids=Fixed())
    a, b, c = say(live, "a"), say(live, "b"), say(live, "c")
    assert [n.id for n in live.chain] == [a, b, c]
    live.append(BranchSelected(id=live.new_id("x"), leaf=b))
    d = say(live, "d")
    assert [n.id for n in live.chain] == [a, b, d]
    live.append(CompactionBoundaryCreated(id=live.new_id("c"), logical_parent=d, kept=[b, d]))
    e = say(live, "e")
    assert [n.id for n in live.chain] == ["c1", b, d, e]
    live.append(BranchSelected(id=live.new_id("x"), leaf=c))
    assert [n.id for n in live.chain] == [a, b, c]


def test_a_failing_subscriber_is_removed_and_the_append_stands():
    live = LiveLog(session_id="s", ids=Fixed())
    seen = []

    def bad(event):
        raise ValueError("no")

    live.subscribe(bad)
    end = live.subscribe(lambda event: seen.append(event.id))
    with pytest.warns(UserWarning, match="subscriber"):
        say(live, "a")
    say(live, "b")
    end()
    say(live, "c")
    assert seen == ["m1", "m2"]
    assert live.head == "m3"


def test_an_id_enters_once_and_a_closed_session_takes_nothing():
    live = LiveLog(session_id="s", ids=Fixed())
    live.append(MessageAppended(id="m1", role="user", content=[]))
    with pytest.raises(UsageError, match="m1"):
        live.append(MessageAppended(id="m1", role="user", content=[]))
    assert say(live, "next") == "m2"
    live.close()
    with pytest.raises(UsageError, match="closed"):
        live.append(MessageAppended(id="m9", role="user", content=[]))
