"""A resume in frames: the order of SPEC 6.1, with the numbers of each step."""

from __future__ import annotations

import nova_nb as nova

from .helpers import log_of
from .worlds import World


def test_the_frames_of_a_resume_say_what_each_step_found(tmp_path):
    world = World(tmp_path)
    world.call(1)
    world.commit(0)
    world.checkpoint(3)
    world.compact(0)
    world.parallel(1)
    world.commit(0)
    world.open_call(1)
    world.live.close()
    replay = nova.open_session(log_of(world.live)).replay("resume")
    found = {f.data["step"]: f for f in replay.frames}
    assert list(found) == ["load", "leaf", "walk", "boundary", "commits", "repair", "restore"]
    assert found["leaf"].data["ids"] == [world.live.head]
    assert found["walk"].data["ids"] == [n.id for n in world.live.chain]
    assert found["boundary"].data["numbers"] == {"behind the boundary": 4, "kept verbatim": 0}
    assert found["commits"].data["numbers"]["in force"] == 2
    assert "unknown after crash" in found["repair"].text
    assert found["load"].data["numbers"]["model calls"] == world.live.steps
