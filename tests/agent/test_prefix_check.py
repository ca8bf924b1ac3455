"""A model that checks its prefix: 200 turns with reclaim on, compactions in between, and not one mismatch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from nova_nb.agent.kernel import AgentKernel
from nova_nb.history.events import CompactionBoundaryCreated, Failure, ProjectionCommitted, RequestSent
from nova_nb.ids import Fixed
from nova_nb.models.anthropic import AnthropicModel
from nova_nb.models.offline import OfflineModel
from nova_nb.settings import settings_from
from tests.wire.server import WireServer


async def by_hand(kernel: AgentKernel, act: str) -> None:
    """Change what stands before the answers of two turns; undo also changes what stood before a third."""
    ids = [node.id for node in kernel.live.chain]
    if act == "clip":
        kernel.clip(ids[1:3])
    elif act == "summarise":
        assert await kernel.summarise(ids[:-2])
    elif act == "prompt":
        kernel.agent.system = [{"type": "text", "text": "You are another agent."}]
    else:
        commit = kernel.fold(ids[1:3], "[looked]")
        if act == "undo":
            await kernel.ask("Read mod_2.py.")
            kernel.undo(commit)


@pytest.mark.parametrize("act", ["fold", "clip", "summarise", "undo", "prompt"])
async def test_a_change_by_hand_lets_the_thinking_go_that_was_bound_to_what_it_changed(tmp_path: Path, act: str) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    for n in range(3):
        (root / f"mod_{n}.py").write_text(f"def function_{n}(value):\n    return value  # in UTC\n" * 12)
    clock = Fixed()
    with WireServer(OfflineModel(source=clock), thinking=True, prefix_check="error") as server:
        model = AnthropicModel("claude-opus-5-5", base_url=server.url, api_key=server.key)
        kernel = AgentKernel(root, model, settings="workshop", permission="allow", home=tmp_path / "home", ids=clock)
        for n in range(2):
            await kernel.ask(f"Read mod_{n}.py and tell me what it does.")
        assert kernel.agent.thoughts
        await by_hand(kernel, act)
        await kernel.ask("Read mod_2.py and tell me what it does.")
        assert kernel.agent.thoughts  # new answers keep theirs
        await kernel.ask("Read mod_1.py again and tell me what it does.")
    assert [e for e in kernel.live.events if isinstance(e, Failure)] == []
    assert kernel.session.verify().ok
    kernel.close()


@pytest.mark.parametrize(("turns", "mode"), [(25, "error"), pytest.param(200, "error", marks=pytest.mark.slow), (25, "report")])
async def test_the_thinking_that_comes_back_is_always_valid(tmp_path: Path, turns: int, mode: str) -> None:
    settings = settings_from("workshop").model_copy(update={"reclaim_protect_tokens": 0, "reclaim_min_tokens": 1})
    root = tmp_path / "shop"
    root.mkdir()
    for n in range(3):
        (root / f"mod_{n}.py").write_text(f"def function_{n}(value):\n    return value  # in UTC\n" * 12)
    clock = Fixed()
    with WireServer(OfflineModel(source=clock), thinking=True, prefix_check=mode) as server:
        model = AnthropicModel("claude-opus-5-5", base_url=server.url, api_key=server.key)
        assert model.capabilities.prefix_check
        kernel = AgentKernel(root, model, settings=settings, permission="allow", home=tmp_path / "home", ids=clock)
        for n in range(turns):
            clock.time += 400  # the cache is cold at each turn: where nothing forbids it, reclaim would run
            await kernel.ask(f"Read mod_{n % 3}.py and tell me what it does. Note {n}: " + "x" * 700)
    events = kernel.live.events
    assert server.transformations == []
    assert [e for e in events if isinstance(e, Failure)] == []
    assert [e for e in events if isinstance(e, ProjectionCommitted)] == []
    back = [b for seen in server.seen for m in seen.body["messages"] for b in m["content"] if b["type"] == "thinking"]
    assert len(back) > turns
    assert any(isinstance(e, CompactionBoundaryCreated) and e.meta.get("strip_thinking") for e in events)
    grown = [e for e in events if isinstance(e, RequestSent) and e.kind == "main"]
    rewrites = sum(b.prefix_bytes < a.total_bytes for a, b in pairwise(grown))
    assert rewrites == sum(isinstance(e, CompactionBoundaryCreated) for e in events)
    kernel.close()
