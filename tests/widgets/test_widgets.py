"""Widgets are thin: three forms in one bundle, changes sent as they come, nothing of the session touched."""

from __future__ import annotations

import asyncio
import json

from nova_nb.foreign import nova as nova_format
from nova_nb.history.events import MessageAppended, SessionStarted
from nova_nb.history.live import LiveLog
from nova_nb.history.log import Log, Source
from nova_nb.session import Session, of_live
from nova_nb.widgets.explorer import Explorer
from nova_nb.widgets.timeline import Timeline
from tests.views.made import eventful


def test_the_bundle_of_each_widget_has_a_live_a_static_and_a_text_form():
    session = eventful().session()
    for view, live in (
        (Explorer(session), "application/vnd.jupyter.widget-view+json"),
        (Timeline(session), "application/vnd.plotly.v1+json"),
    ):
        data, _ = view._repr_mimebundle_()
        assert set(data) == {live, "text/html", "text/plain"}
        assert "nova 0.1.0 session: 44 records, 9 model calls" in data["text/plain"]


def test_static_forms_are_the_same_each_time_and_hold_no_ids():
    one, two = (Explorer(eventful().session()) for _ in range(2))
    assert one.static_html() == two.static_html()
    assert repr(one) == repr(two)
    assert "m17" not in one.static_html()


def grown(explorer):
    sent = []
    explorer.send = lambda message, buffers=None: sent.append((message, json.loads(buffers[0]) if buffers else None))
    return sent


async def test_rows_of_a_live_session_are_sent_together_and_only_once():
    events = eventful().events
    live = LiveLog(session_id="s")
    for event in events[:3]:
        live.append(event)
    explorer = Explorer(of_live(live), live)
    sent = grown(explorer)
    for event in events[3:]:
        live.append(event)
    await asyncio.sleep(0.4)
    frames = [frame for message, frame in sent if message["type"] == "frame"]
    assert len(frames) == 1
    assert frames[0]["base"]["rows"] == 3
    assert frames[0]["rows"]["id"] == [e.id for e in live.events[3:]]
    assert len(frames[0]["steps"]["kind"]) == 10
    explorer.stop()
    live.append(MessageAppended(id="later", parent=live.head, role="user", content=[]))
    await asyncio.sleep(0.3)
    assert len(sent) == 1


async def test_a_live_session_ends_in_the_picture_of_the_session_on_disk():
    live = LiveLog(session_id="s")
    explorer = Explorer(of_live(live), live)
    for event in eventful().events:
        live.append(event)
        explorer._send_changes()
    whole, followed = Explorer(of_live(live))._picture, explorer._picture
    for step, entry in enumerate(of_live(live).steps, 1):
        for picture in (whole, followed):
            assert [picture.requests.pieces[i].block for i in picture.order(step)] == [
                piece.block for piece in of_live(live).projection(step).pieces
            ]
            assert picture.requests.steps[step - 1].usage == entry.usage
            assert picture.timeline.sizes[step - 1].total == entry.usage.context
    for name in ("rows", "blocks", "lines", "marks", "counts"):
        assert whole.whole()[name] == followed.whole()[name]


def test_what_is_selected_is_a_value_for_the_next_cell():
    explorer = Explorer(eventful().session())
    assert explorer.selected is None
    rule = next(e for e in explorer.session.log.events if isinstance(e, MessageAppended))
    explorer.selection = {"row": explorer.session.log.index[rule.id], "step": 2}
    assert explorer.selected.record == rule.id
    assert explorer.selected.state == "whole"
    assert "UTC" in explorer.selected.text
    explorer.selection = {"row": explorer.session.log.index[rule.id], "step": None}
    assert explorer.selected.state == "boundary"


def test_an_error_in_a_callback_is_said_under_the_widget():
    explorer = Explorer(eventful().session())
    sent = grown(explorer)
    explorer._message(None, {"type": "trace", "text": "  "}, [])
    explorer._message(None, {"type": "text", "row": 10_000, "limit": 5}, [])
    assert [message["type"] for message, _ in sent] == ["error", "error"]
    assert "give a text to trace" in sent[0][0]["text"]


def test_a_view_that_missed_a_frame_gets_the_whole():
    explorer = Explorer(eventful().session())
    sent = grown(explorer)
    explorer._message(None, {"type": "ready", "seq": 1}, [])
    assert sent == []
    explorer._message(None, {"type": "resync"}, [])
    assert len(sent[0][1]["rows"]["id"]) == 44


def test_watching_changes_nothing_of_the_session():
    session = eventful().session()
    before = [session.request(step).canonical for step in [*range(1, 10), None]]
    explorer = Explorer(session)
    explorer.static_html()
    Timeline(session).static_html()
    assert [session.request(step).canonical for step in [*range(1, 10), None]] == before


def test_the_empty_session_has_every_form():
    log = Log(Source("", "nova", "0.1.0", "s"), [SessionStarted(id="s", session="s")], [1])
    for view in (Explorer(Session(log, nova_format)), Timeline(Session(log, nova_format))):
        assert "text/html" in view._repr_mimebundle_()[0]


def test_the_timeline_stacks_the_recorded_sums():
    session = eventful(
        {"window_tokens": 4000, "output_reserve_tokens": 400, "soft_margin_tokens": 300, "hard_margin_tokens": 100}
    ).session()
    timeline = Timeline(session)
    bars = [trace for trace in timeline.figure.data if trace.type == "bar"]
    for i, step in enumerate(session.steps):
        assert abs(sum(bar.y[i] for bar in bars) - step.usage.context) < len(bars)
    assert {t.name for t in timeline.figure.data if t.type == "scatter"} == {
        "compaction",
        "result written to a file",
        "failure",
    }
    assert {a.text for a in timeline.figure.layout.annotations} == {"window 4.0k", "soft 3.3k", "hard 3.5k"}
