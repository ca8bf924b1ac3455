"""Law 9, verify(): what was sent is what the log gives; where it is not, the first differing block and the missing event are named."""

from __future__ import annotations

import msgspec
import pytest

from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, ProjectionCommitted, PromptSet, RequestSent
from nova_nb.history.live import LiveLog
from nova_nb.ids import Fixed
from nova_nb.projection.portable import carry_over, unportable
from nova_nb.projection.project import POLICY
from nova_nb.projection.projector import Projector
from nova_nb.projection.verify import block_digests, verify
from nova_nb.settings import ContextSettings

SETTINGS = ContextSettings()


def spoken(turns: int = 3) -> LiveLog:
    """A session whose requests are recorded as the loop records them."""
    live = LiveLog(session_id="s", ids=Fixed())
    projector = Projector(SETTINGS)
    live.subscribe(projector.add)
    live.append(PromptSet(id="p1", system=[{"type": "text", "text": "You help."}], tools=[{"name": "read"}]))
    for n in range(turns):
        say(live, "user", f"question {n}")
        send(live, projector)
        say(live, "assistant", f"answer {n}")
        if n == 1:
            kept = [node.id for node in live.chain[-2:]]
            summary = [{"type": "text", "text": "summary"}]
            live.append(CompactionBoundaryCreated(id="c1", logical_parent=live.head, content=summary, kept=kept))
    return live


def say(live, role, text, **fields):
    content = [{"type": "text", "text": text}, {"type": "text", "text": "second block"}]
    return live.append(MessageAppended(id=live.new_id(), parent=live.head, role=role, content=content, **fields))


def send(live, projector, **fields):
    request = projector.request(live.steps + 1)
    sent = RequestSent(
        id=live.new_id("q"), step=live.steps + 1, leaf=live.head, hash=request.hash, policy=POLICY,
        prefix_bytes=request.prefix_bytes or 0, total_bytes=request.total_bytes or 0, meta={"blocks": block_digests(request)},
    )  # fmt: skip
    live.append(msgspec.structs.replace(sent, **fields))


def lines(events):
    places = {e.id: i for i, e in enumerate(events, 1)}
    return places.get


def changed(events, id, **fields):
    return [msgspec.structs.replace(e, **fields) if e.id == id else e for e in events]


def faults(events):
    return [c for c in verify(events, SETTINGS, lines(events)).checks if c.state != "same"]


def test_what_was_sent_is_what_the_log_gives():
    events = spoken().events
    found = verify(events, SETTINGS)
    assert found.ok
    assert [c.state for c in found.checks] == ["same"] * 3
    assert "3 of 3" in str(found)


@pytest.mark.parametrize("message", [1, 3])
def test_a_changed_message_is_named_with_its_block_and_line(message):
    events = spoken().events
    other = [{"type": "text", "text": f"question {0 if message == 1 else 1}"}, {"type": "text", "text": "changed block"}]
    fault = faults(changed(events, f"m{message}", content=other))[0]
    assert fault.step == (1 if message == 1 else 2)
    assert (fault.parting.block, fault.parting.sources, fault.parting.event) == (1, (f"m{message}",), "message_appended")
    assert f"m{message} (line" in fault.reason


def test_a_changed_system_prompt_is_named():
    fault = faults(changed(spoken().events, "p1", system=[{"type": "text", "text": "Other."}]))[0]
    assert (fault.parting.part, fault.parting.event) == ("system or tools", "prompt_set")


def test_a_message_that_was_sent_and_is_not_in_the_log_is_named():
    live = spoken(1)
    projector = Projector(SETTINGS)
    for event in live.events:
        projector.add(event)
    extra = say(LiveLog(session_id="x"), "user", "injected behind the log's back")
    projector.add(msgspec.structs.replace(extra, id="ghost", parent=live.head))
    send(live, projector)
    fault = faults(live.events)[0]
    assert (fault.parting.message, fault.parting.event) == (2, "message_appended")
    assert "was sent and is not derived" in fault.reason


def test_a_prefix_that_moved_without_an_event_is_named():
    live = spoken(2)
    projector = Projector(SETTINGS)
    for event in live.events:
        projector.add(event)
    say(live, "user", "more")
    projector.add(live.events[-1])
    projector.add(ProjectionCommitted(id="k", action="clip", targets=["m3"]))  # decided and not logged
    send(live, projector)
    fault = faults(live.events)[0]
    assert fault.parting.event.startswith("projection_committed")
    assert fault.parting.sources == ("m3",)


def test_a_wrong_head_is_named():
    fault = faults(changed(spoken(2).events, "q2", hash="0" * 64, leaf="m1"))[0]
    assert fault.parting.event == "branch_selected"


def test_rules_of_another_version_are_not_called_different():
    events = spoken().events
    found = verify(changed(events, "q2", policy="projection/99", hash="0" * 64), SETTINGS)
    assert found.ok
    assert "projection/99" in str(found)


def test_an_older_log_without_digests_says_that_it_cannot_say_where():
    events = changed(spoken(1).events, "q1", meta={}, policy="", hash="0" * 64)
    assert "no digests" in faults(events)[0].reason


def test_thinking_is_in_no_log_and_no_hash():
    live = spoken(1)
    stored = live.append(
        MessageAppended(
            id="m9", parent=live.head, role="assistant",
            content=[{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "yes"}],
        )
    )  # fmt: skip
    assert stored.content == [{"type": "text", "text": "yes"}]
    assert stored.meta["thinking"] == {"blocks": 1, "chars": 3}


def test_what_only_the_old_provider_can_read_is_left_out_by_an_event_and_comes_back():
    live = LiveLog(session_id="s", ids=Fixed())
    projector = Projector(SETTINGS)
    live.subscribe(projector.add)
    say(live, "user", "search")
    blocks = [
        {"type": "text", "text": "found"},
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []},
    ]
    live.append(MessageAppended(id="m2", parent=live.head, role="assistant", content=blocks, model="claude-sonnet-4-5"))
    whole = projector.request().canonical
    assert unportable(live.chain, "claude-opus-4-5") == {}
    commit = carry_over(live, projector, "gpt-5")
    assert commit is not None
    assert "provider's side" in commit.reason
    assert [b["type"] for b in projector.request().messages[1]["content"]] == ["text"]
    assert projector.projection().left["m2"][1] == commit.reason
    assert carry_over(live, projector, "gpt-5") is None
    assert carry_over(live, projector, "claude-opus-4-5") is None
    assert projector.request().canonical == whole
