"""A picture says of every step what the session itself says, and grows like the session."""

from __future__ import annotations

import pytest

import nova_nb as nova
from nova_nb.views.picture import Picture, encode
from nova_nb.views.timeline import CATEGORIES

from .made import eventful, long


def shown(picture, step):
    return [(picture.requests.pieces[i].block, picture.requests.pieces[i].state) for i in picture.order(step)]


@pytest.mark.parametrize("script", [eventful(), long(400), long(600, compact_every=20)], ids=["eventful", "long", "compacted"])
def test_every_step_shows_the_pieces_of_its_request(script):
    session = script.session()
    picture = Picture()
    picture.update(session)
    for step in [*range(1, len(session.steps) + 1), None]:
        pieces = session.projection(step).pieces
        assert shown(picture, step or len(session.steps) + 1) == [(p.block, p.state) for p in pieces], step


def test_a_long_run_is_placed_with_few_projections():
    picture = Picture()
    session = long(2_000).session()
    picture.update(session)
    assert len(session.steps) > 400
    assert picture.requests.projected < 10
    assert len(picture.requests.epochs) == 1


def merge(whole, frame):
    """The reader's one rule: cut each table at `base`, then append."""
    out = dict(frame)
    for table, at in frame["base"].items():
        old, new = whole[table], frame[table]
        if isinstance(new, dict):
            out[table] = {name: old[name][:at] + column for name, column in new.items()}
        else:
            out[table] = old[:at] + new
    for a, b in frame["patch"]["pair"]:
        out["blocks"]["pair"][a] = b
    for a, b in frame["patch"]["parent"]:
        out["rows"]["parent"][a] = b
    return out


def test_frames_of_a_growing_session_add_up_to_the_picture_of_the_whole():
    script = eventful()
    growing, reader = Picture(), Picture().update(script.session(1))
    growing.update(script.session(1))
    for upto in range(2, len(script.events) + 1):
        reader = merge(reader, growing.update(script.session(upto)))
    assert reader | {"seq": 0, "base": 0, "patch": 0} == growing.whole() | {"seq": 0, "base": 0, "patch": 0}
    for step in range(1, len(growing.requests.steps) + 2):
        pieces = script.session().projection(step if step <= len(growing.requests.steps) else None).pieces
        assert shown(growing, step) == [(p.block, p.state) for p in pieces], step


def find(picture, words):
    return next(row for row in range(len(picture.history.events)) if words in picture.history.text(row))


def test_each_row_says_how_the_model_sees_it():
    picture = Picture()
    picture.update(eventful().session())
    last = len(picture.requests.steps) + 1
    rule, other = find(picture, "never CURRENT_TIMESTAMP"), find(picture, "Try a trigger")
    spilled, added = find(picture, "FAILED tests"), find(picture, "Add the column")
    assert picture.state(rule, 1)[0] == "whole"
    assert picture.state(rule, last)[0] == "boundary"
    assert picture.state(spilled, 4)[0] == "preview"
    assert picture.state(other, 6)[0] == "whole"
    assert picture.state(other, 8)[0] == "branch"
    assert picture.state(other, last)[0] == "branch"
    assert picture.state(added, 2) == ("later", "not yet written when this request was sent")
    assert picture.state(added, last)[0] == "whole"
    assert picture.state(find(picture, "Files read last"), last)[0] == "summary"


def test_the_sizes_of_a_step_add_up_to_its_recorded_usage():
    picture = Picture()
    session = eventful().session()
    picture.update(session)
    for step, size in zip(session.steps, picture.timeline.sizes, strict=False):
        assert size.recorded
        assert size.total == step.usage.context
        assert sum(size.parts) == pytest.approx(size.total, abs=len(size.parts))


def test_a_frame_is_json_whatever_the_text():
    script = eventful()
    script.ask("a separator \u2028 and \x1b[31m red \u202e over")
    text = encode(picture_of(script).whole()).decode()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "‹U+202E›" in text
    assert "\u2028" not in text


def picture_of(script):
    picture = Picture()
    picture.update(script.session())
    return picture


def test_what_no_log_holds_is_measured_again_where_a_whole_request_was_smaller():
    picture = Picture()
    picture.update(nova.open_session(nova.examples.path("claude-code-compaction")))
    sizes = picture.timeline.sizes
    assert sizes[-1].parts[CATEGORIES.index("unlogged")] <= min(size.total for size in sizes[:-1] if size.recorded)
