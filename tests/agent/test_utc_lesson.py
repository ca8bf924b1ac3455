"""The lesson of the seeds, end to end: what the model writes depends on what the request holds, and the views show why.

The person says once that all timestamps are stored in UTC. While that is in the request the agent writes UTC; when a
layer pushes it out, it falls back to its habit, CURRENT_TIMESTAMP. The log holds the rule all the time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb import examples
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, ProjectionCommitted, ProjectionUndone
from nova_nb.ids import Fixed

PROMPTS = examples.scenario("shop")["prompts"]
RULE, SHIP, CANCEL = PROMPTS["rule"], PROMPTS["ship"], PROMPTS["cancel"]


@pytest.fixture
def kernel(tmp_path: Path):
    shop = examples.workspace("shop", tmp_path / "shop")
    with nova.AgentKernel(shop, permission="allow", home=tmp_path / "home", ids=Fixed()) as kernel:
        yield kernel


def written(kernel: nova.AgentKernel) -> str:
    """All Python of the package, as it is on disk now."""
    return "\n".join(path.read_text() for path in sorted((kernel.agent.workspace.root / "shop").glob("*.py")))


def in_request(kernel: nova.AgentKernel, text: str) -> bool:
    """Whether the person's words are in the next request, in any form."""
    return any(text in str(block) for message in kernel.session.request().messages for block in message["content"])


def rule_message(kernel: nova.AgentKernel) -> MessageAppended:
    return next(e for e in kernel.live.events if isinstance(e, MessageAppended) and RULE in str(e.content))


async def test_with_the_rule_in_the_request_the_right_code_is_written(kernel: nova.AgentKernel):
    await kernel.ask(RULE)
    await kernel.ask(SHIP)
    assert in_request(kernel, RULE)
    assert "utc_now()" in written(kernel).partition("def mark_shipped")[2]
    assert "CURRENT_TIMESTAMP" not in written(kernel)
    trace = kernel.session.trace(RULE)
    assert {step.state for step in trace.steps} == {"whole"}


async def test_in_a_fork_from_before_the_rule_the_habit_returns(kernel: nova.AgentKernel, tmp_path: Path):
    await kernel.ask("What is in this project?")
    before = kernel.live.head
    await kernel.ask(RULE)
    with nova.AgentKernel.fork(kernel.live.directory, before, permission="allow", home=tmp_path / "home", ids=Fixed()) as fork:
        await fork.ask(SHIP)
        assert not in_request(fork, RULE)
        assert "CURRENT_TIMESTAMP" in written(fork)
        assert fork.session.trace(RULE).first is None
    assert in_request(kernel, RULE)


async def test_on_a_branch_from_before_the_rule_it_is_on_disk_and_not_in_the_request(kernel: nova.AgentKernel):
    await kernel.ask("What is in this project?")
    before = kernel.live.head
    await kernel.ask(RULE)
    kernel.rewind(before)
    await kernel.ask(SHIP)
    assert "CURRENT_TIMESTAMP" in written(kernel)
    last = kernel.session.trace(RULE).turns[-1]
    assert (last.from_, last.to, last.layer) == ("whole", "disk", "branch")


async def test_a_clipped_rule_is_forgotten_and_comes_back_when_the_clip_is_undone(kernel: nova.AgentKernel):
    await kernel.ask(RULE)
    said = rule_message(kernel).id
    answer = kernel.live.head
    commit = kernel.agent.record(ProjectionCommitted, action="clip", targets=[said, answer], reason="the window pressed")
    await kernel.ask(SHIP)
    assert not in_request(kernel, RULE)
    assert "CURRENT_TIMESTAMP" in written(kernel)
    last = kernel.session.trace(RULE).turns[-1]
    assert (last.from_, last.to, last.layer) == ("whole", "disk", "projection")

    kernel.agent.record(ProjectionUndone, commit=commit)
    await kernel.ask(CANCEL)
    assert in_request(kernel, RULE)
    assert "utc_now()" in written(kernel).partition("def mark_cancelled")[2]


async def test_a_compaction_whose_summary_dropped_the_rule_makes_it_forget_and_the_trace_names_the_line(
    kernel: nova.AgentKernel,
):
    await kernel.ask(RULE)
    head = kernel.live.head
    summary = [{"type": "text", "text": "Summary: the person works on a small shop. Nothing is unfinished."}]
    boundary = kernel.agent.record(CompactionBoundaryCreated, logical_parent=head, trigger="auto", content=summary)
    await kernel.ask(SHIP)
    assert not in_request(kernel, RULE)
    assert "CURRENT_TIMESTAMP" in written(kernel)
    session = nova.open_session(kernel.live.directory)
    last = session.trace(RULE).turns[-1]
    assert (last.from_, last.to, last.layer, last.record) == ("whole", "disk", "boundary", boundary)
    assert last.line == session.log.line(boundary)
    assert session.trace(RULE).first.record == rule_message(kernel).id


async def test_a_compaction_whose_summary_kept_the_rule_loses_nothing(kernel: nova.AgentKernel):
    await kernel.ask(RULE)
    summary = [{"type": "text", "text": f"Summary of the conversation.\nDecisions:\n- {RULE}"}]
    kernel.agent.record(CompactionBoundaryCreated, logical_parent=kernel.live.head, trigger="auto", content=summary)
    await kernel.ask(SHIP)
    assert "utc_now()" in written(kernel).partition("def mark_shipped")[2]
    assert kernel.session.trace(RULE).turns[-1].to == "summary"
