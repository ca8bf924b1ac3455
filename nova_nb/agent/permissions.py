"""Who may run a command: a policy decides, or a person is asked.

Knows: what is asked, the answers, and the patterns of an allow-list. Does not know buttons: a
notebook's prompt is an `Ask` like any other (`nova_nb.widgets.permission`). Each answer becomes an
event; a resumed session asks again, because a grant was given for what was on screen then.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from ..errors import UsageError


class PermissionRequest(msgspec.Struct, frozen=True):
    """A tool wants to run `command` in `workspace`. `before`: the log says that it was allowed for this session already.

    That is told to the person and decides nothing: a log is a file, and whoever wrote it must not allow commands here.
    """

    tool: str
    command: str
    workspace: str = ""
    before: bool = False


class Decision(msgspec.Struct, frozen=True):
    """The answer. `scope` "session" allows this very command until the kernel is closed; `by` says who decided."""

    allowed: bool
    scope: Literal["once", "session"] = "once"
    by: str = ""
    reason: str = ""


Ask = Callable[[PermissionRequest], Awaitable[Decision]]
Policy = str | Iterable[str] | Callable[[PermissionRequest], object] | None
"""What a person may write: "allow", "deny", command patterns, a function that gives a Decision or a bool
(now or as an awaitable), or None: ask where there is someone to ask, else deny."""


def asker(policy: Policy, prompt: Ask | None = None) -> Ask:
    """The policy as a function. `prompt` asks a person, where there is one.

    >>> import asyncio
    >>> ask = asker(["python -m pytest *", "git log"])
    >>> asyncio.run(ask(PermissionRequest("run_command", "python -m pytest -q tests"))).allowed
    True
    >>> asyncio.run(ask(PermissionRequest("run_command", "git log; rm -rf ."))).allowed
    False
    """
    if policy is None:
        return _remembering(prompt) if prompt else _fixed(False, "nobody is here to ask; pass permission= to AgentKernel")
    if isinstance(policy, str):
        if policy in ("allow", "deny"):
            return _fixed(policy == "allow", f'the policy is "{policy}"')
        raise UsageError(f'permission={policy!r} is not known; use "allow", "deny", a list of command patterns or a function')
    if callable(policy):
        return _remembering(_of(policy))
    patterns = list(policy)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError("permission= takes a list of command patterns, each a text such as 'python -m pytest *'")

    async def by_list(request: PermissionRequest) -> Decision:
        hit = next((pattern for pattern in patterns if matches(request.command, pattern)), None)
        if hit is not None:
            return Decision(True, by="policy", reason=f"allowed by {hit!r}")
        return Decision(False, by="policy", reason=f"only these commands are allowed: {', '.join(patterns)}")

    return by_list


def mode_of(policy: Policy, prompt: Ask | None = None) -> str:
    """The policy in a word: "allow", "deny", "ask", "list" or "function".

    >>> mode_of(None), mode_of(["git log"])
    ('deny', 'list')
    """
    if policy is None:
        return "ask" if prompt else "deny"
    return policy if isinstance(policy, str) else "function" if callable(policy) else "list"


def matches(command: str, pattern: str) -> bool:
    """Whether a command is one that the pattern means: word by word, a last `*` for any further words.

    A command that holds anything a shell gives a meaning to (`;`, `|`, `$`, a line end, …) can only match as
    a whole, letter for letter: a pattern for one command never lets a second one through.

    >>> matches("pytest -q", "pytest *"), matches("pytest", "pytest *"), matches("pytest -q", "pytest")
    (True, True, False)
    >>> matches("pytest > /dev/null", "pytest *")
    False
    """
    if command == pattern:
        return True
    if any(character in command for character in ";&|<>$`\n\r(){}[]*?~#!\\\"'"):
        return False
    words, wanted = command.split(), shlex.split(pattern)
    if wanted[-1:] == ["*"]:
        wanted.pop()
        words = words[: len(wanted)]
    return len(words) == len(wanted) and all(fnmatchcase(word, want) for word, want in zip(words, wanted, strict=True))


def _fixed(allowed: bool, reason: str) -> Ask:
    async def ask(_request: PermissionRequest) -> Decision:
        return Decision(allowed, by="policy", reason=reason)

    return ask


def _of(function: Callable[[PermissionRequest], object]) -> Ask:
    async def ask(request: PermissionRequest) -> Decision:
        answer = function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, Decision) else Decision(answer in (True, "allow"), by="policy")

    return ask


def _remembering(ask: Ask) -> Ask:
    """Ask once for a command that was allowed for the session."""
    allowed: set[tuple[str, str, str]] = set()

    async def remembering(request: PermissionRequest) -> Decision:
        key = (request.tool, request.command, request.workspace)
        if key in allowed:
            return Decision(True, "session", "grant", "allowed before in this session")
        decision = await ask(request)
        if decision.allowed and decision.scope == "session":
            allowed.add(key)
        return decision

    return remembering
