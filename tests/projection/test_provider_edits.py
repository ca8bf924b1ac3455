"""What the provider does on its side: asked for, recorded, and left behind when another one goes on."""

from __future__ import annotations

from typing import Any

from nova_nb.history.events import Note
from nova_nb.models.base import Capabilities, Reply
from nova_nb.projection.provider_edits import BETA, applied, portable, request_fields
from nova_nb.settings import ContextSettings
from tests.agent.conftest import make  # noqa: F401
from tests.agent.scripted import Scripted
from tests.projection.strategies import call, result, text, wire_errors

ABLE = Capabilities(server_edits=True)
ON = ContextSettings(server_edits=True)
EDIT = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}


def test_nothing_is_asked_for_unless_setting_and_model_both_have_it():
    assert request_fields(ON, Capabilities()) == {}
    assert request_fields(ContextSettings(), ABLE) == {}
    fields = request_fields(ON, ABLE)
    assert fields["betas"] == [BETA]
    thinking, clear = fields["context_management"]["edits"]
    assert thinking == {"type": "clear_thinking_20251015", "keep": "all"}
    assert clear["clear_at_least"]["value"] == ON.reclaim_min_tokens


async def test_applied_edits_become_events_and_leave_what_we_send_alone(make: Any) -> None:  # noqa: F811
    reply = Reply([text("ok")], "end_turn", meta={"context_management": {"applied_edits": [EDIT]}})
    model = Scripted(reply, reply)
    model.capabilities = ABLE
    kernel = make(model=model, settings=ON)
    await kernel.ask("one")
    await kernel.ask("two")
    notes = [e for e in kernel.live.events if isinstance(e, Note) and e.kind == "provider-edit"]
    assert [n.meta["edit"] for n in notes] == [EDIT, EDIT]
    assert "50,000 tokens cleared" in notes[0].message
    assert all("context_management" in body for body in model.bodies)
    session = kernel.session
    assert session.request(step=2).canonical.startswith(session.request(step=1).canonical)


def test_a_block_that_failed_the_prefix_check_is_named():
    entry = {"type": "thinking_dropped", "path": "messages.3.content.0", "reason": "prefix_binding_mismatch"}
    ((sentence, data),) = applied({"input_transformations": [entry]})
    assert "messages.3.content.0 (prefix_binding_mismatch)" in sentence
    assert data == entry


def test_reports_that_are_no_reports_say_nothing():
    for meta in (
        {},
        {"context_management": None},
        {"context_management": {"applied_edits": "x"}},
        {"context_management": {"applied_edits": [3]}},
    ):
        assert applied(meta) == []


def test_another_provider_gets_the_summary_of_the_newest_block_and_what_came_after_it():
    block = {"type": "compaction", "content": "We use pnpm.", "encrypted_content": "…", "signature": "s"}
    messages = [
        {"role": "user", "content": [text("old")]},
        {"role": "assistant", "content": [block, {"type": "thinking", "thinking": "hm", "signature": "s"}, call("t1")]},
        {"role": "user", "content": [result("t1")]},
    ]
    sent = portable(messages)
    assert wire_errors(sent) == []
    assert "We use pnpm." in sent[0]["content"][0]["text"]
    assert "old" not in str(sent)
    assert [b["type"] for b in sent[1]["content"]] == ["tool_use"]


def test_a_block_that_failed_is_no_compaction():
    failed = {"type": "compaction", "content": None}
    messages = [{"role": "user", "content": [text("old")]}, {"role": "assistant", "content": [failed, text("x")]}]
    assert portable(messages) == [messages[0], {"role": "assistant", "content": [text("x")]}]
