"""The prompt with buttons: nothing runs before a click, and a click answers."""

from __future__ import annotations

import asyncio

import pytest

from nova_nb.agent.permissions import PermissionRequest, asker
from nova_nb.widgets import permission
from nova_nb.widgets.permission import PermissionPrompt

REQUEST = PermissionRequest("run_command", "<script>alert(1)</script> && ls", "/tmp/shop")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[PermissionPrompt]:
    prompts: list[PermissionPrompt] = []
    monkeypatch.setattr(permission, "display", prompts.append)
    return prompts


@pytest.mark.parametrize(("button", "allowed", "scope"), [(0, True, "once"), (1, True, "session"), (2, False, "once")])
async def test_it_waits_for_a_click_and_gives_that_answer(
    shown: list[PermissionPrompt], button: int, allowed: bool, scope: str
):
    task = asyncio.create_task(permission.ask(REQUEST))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    shown[0].buttons[button].click()
    decision = await task
    assert (decision.allowed, decision.scope, decision.by) == (allowed, scope, "person")
    assert len(shown[0].children) == 1


async def test_a_second_click_changes_nothing(shown: list[PermissionPrompt]):
    task = asyncio.create_task(permission.ask(REQUEST))
    await asyncio.sleep(0)
    shown[0].buttons[2].click()
    shown[0].buttons[0].click()
    assert not (await task).allowed


async def test_an_interrupt_closes_the_prompt(shown: list[PermissionPrompt]):
    task = asyncio.create_task(permission.ask(REQUEST))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "interrupted" in shown[0].status.value


async def test_a_command_is_shown_as_text_never_as_markup(shown: list[PermissionPrompt]):
    prompt = PermissionPrompt(REQUEST)
    assert "<script>" not in prompt.status.value
    prompt.close_with("not run")
    assert "<script>" not in prompt.status.value


async def test_what_is_hidden_in_a_command_is_shown(shown: list[PermissionPrompt]):
    prompt = PermissionPrompt(PermissionRequest("run_command", "ls \u202e\x1b[8m; rm -rf ."))
    assert "U+202E" in prompt.status.value
    assert "\x1b" not in prompt.status.value


async def test_a_grant_for_the_session_shows_no_second_prompt(shown: list[PermissionPrompt]):
    ask = asker(None, prompt=permission.ask)
    first = asyncio.create_task(ask(REQUEST))
    await asyncio.sleep(0)
    shown[0].buttons[1].click()
    await first
    assert (await ask(REQUEST)).allowed
    assert len(shown) == 1


def test_outside_a_kernel_there_is_nobody_to_ask():
    assert not permission.in_notebook()
