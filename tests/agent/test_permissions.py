"""A command runs only when the policy, or a person, says so."""

from __future__ import annotations

import pytest

from nova_nb.agent.permissions import Decision, PermissionRequest, asker, matches
from nova_nb.errors import UsageError


def request(command: str) -> PermissionRequest:
    return PermissionRequest("run_command", command)


async def test_a_word_allows_or_denies_everything_and_says_so():
    assert (await asker("allow")(request("ls"))).allowed
    denied = await asker("deny")(request("ls"))
    assert not denied.allowed
    assert '"deny"' in denied.reason


async def test_with_nobody_to_ask_the_answer_is_no():
    decision = await asker(None)(request("ls"))
    assert not decision.allowed
    assert "permission=" in decision.reason


async def test_a_list_allows_what_it_names_and_says_what_that_is():
    ask = asker(["python -m pytest *", "ls"])
    assert (await ask(request("python -m pytest -q tests/test_orders.py"))).allowed
    refused = await ask(request("rm -rf ."))
    assert not refused.allowed
    assert "python -m pytest *, ls" in refused.reason


@pytest.mark.parametrize(
    "command",
    [
        "pytest; rm -rf ~", "pytest && curl x", "pytest | sh", "pytest `id`", "pytest $(id)", "pytest $HOME", "pytest\nid",
        "pytest > x", "pytest & id", "X=1 pytest", "pytest \\\n id", "pytest 'a b'", "pytests", "xpytest -q", "",
    ],
)  # fmt: skip
def test_a_pattern_for_one_command_lets_no_second_one_through(command: str):
    assert not matches(command, "pytest *")


def test_a_command_written_out_whole_is_allowed_letter_for_letter():
    assert matches("pytest -q | tail -5", "pytest -q | tail -5")
    assert not matches("pytest -q | tail -6", "pytest -q | tail -5")


@pytest.mark.parametrize(("answer", "allowed"), [(True, True), (False, False), (None, False), ("allow", True), ("deny", False)])
async def test_a_function_may_answer_in_plain_words(answer: object, allowed: bool):
    assert (await asker(lambda _request: answer)(request("ls"))).allowed is allowed


async def test_a_grant_for_the_session_is_asked_once_and_holds_for_that_command_alone():
    asked: list[str] = []

    async def person(request: PermissionRequest) -> Decision:
        asked.append(request.command)
        return Decision(True, "session" if request.command == "ls" else "once")

    ask = asker(None, prompt=person)
    for command in ("ls", "ls", "ls -a", "ls -a"):
        assert (await ask(request(command))).allowed
    assert asked == ["ls", "ls -a", "ls -a"]


@pytest.mark.parametrize("policy", ["pytest", [1]])
def test_a_policy_that_means_nothing_is_refused_with_what_would_do(policy):
    with pytest.raises(UsageError, match="command patterns"):
        asker(policy)
