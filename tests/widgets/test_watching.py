"""Law 11, watching costs nothing: with views open, the agent sends the same bytes and writes the same log."""

from __future__ import annotations

import asyncio

import nova_nb as nova
from nova_nb import examples
from nova_nb.history.events import to_json
from nova_nb.ids import Fixed
from nova_nb.settings import PRESETS
from nova_nb.views.picture import Picture

PROMPTS = examples.scenario("shop")["prompts"]
SMALL = {**PRESETS["workshop"], "window_tokens": 4_600}


async def talk(folder, watched: bool):
    """A talk that compacts; commands are denied, since their output holds the time they took."""
    shop = examples.workspace("shop", folder / "shop")
    with nova.AgentKernel(shop, permission="deny", settings=SMALL, home=folder / "home", ids=Fixed()) as kernel:
        views = [kernel.explore(), kernel.timeline()] if watched else []
        for name in ("why", "ship", "recall"):
            await kernel.ask(PROMPTS[name])
            await asyncio.sleep(0.2 if watched else 0)
        for view in views:
            view.static_html()
        return views, kernel.session


async def test_a_watched_session_is_the_same_byte_for_byte(tmp_path):
    place = tmp_path / "place"  # the log names its own folder: both are written at the same one
    place.mkdir()
    _, alone = await talk(place, watched=False)
    place.rename(tmp_path / "before")
    place.mkdir()
    views, watched = await talk(place, watched=True)
    assert [to_json(e) for e in alone.log.events] == [to_json(e) for e in watched.log.events]
    explorer = views[0]
    await asyncio.sleep(0.3)
    assert len(explorer.session.log.events) == len(watched.log.events)


async def test_a_view_of_a_live_session_shows_each_request_as_it_was_sent(tmp_path):
    views, session = await talk(tmp_path, watched=True)
    explorer = views[0]
    await asyncio.sleep(0.3)
    picture = explorer._picture
    assert any(mark[1] == "compaction" for mark in picture.marks)
    whole = Picture()
    whole.update(session)
    for step in range(1, len(session.steps) + 1):
        want = [p.block for p in session.projection(step).pieces]
        assert [picture.requests.pieces[i].block for i in picture.order(step)] == want, step
        assert [whole.requests.pieces[i].block for i in whole.order(step)] == want, step
        assert picture.timeline.sizes[step - 1] == whole.timeline.sizes[step - 1]
