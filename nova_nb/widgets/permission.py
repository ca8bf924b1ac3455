"""May the agent run this command? A prompt with three buttons, shown below the running cell.

Knows: buttons. Does not know policies or tools: it answers a `PermissionRequest` with a `Decision`
(see `nova_nb.agent.permissions`). The agent runs in a background task, so a click is heard while it
waits; nothing is run until one of the buttons is pressed.
"""

from __future__ import annotations

import asyncio

import ipywidgets
from IPython import get_ipython
from IPython.display import display

from ..agent.permissions import Decision, PermissionRequest
from ..views.html import Markup, tag

CHOICES = (
    ("Run once", "primary", Decision(True, "once", "person")),
    ("Allow this command for the session", "", Decision(True, "session", "person")),
    ("Do not run", "", Decision(False, "once", "person", "the person did not allow it")),
)


class PermissionPrompt(ipywidgets.VBox):
    """The prompt; `await prompt.answered` gives the decision."""

    def __init__(self, request: PermissionRequest) -> None:
        self.request = request
        self.answered: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.buttons = [
            ipywidgets.Button(description=text, button_style=style, layout=ipywidgets.Layout(width="auto"))
            for text, style, _ in CHOICES
        ]
        for button, (_, _, decision) in zip(self.buttons, CHOICES, strict=True):
            button.on_click(lambda _button, decision=decision: self._click(decision))
        self.status = ipywidgets.HTML(_question(request))
        super().__init__([self.status, ipywidgets.HBox(self.buttons)])

    def _click(self, decision: Decision) -> None:
        # a kernel may deliver clicks from a thread of its own
        self.answered.get_loop().call_soon_threadsafe(self._answer, decision)

    def _answer(self, decision: Decision) -> None:
        if not self.answered.done():
            self.answered.set_result(decision)

    def close_with(self, word: str) -> None:
        """Leave one line that says what was decided; the buttons go."""
        self.status.value = tag("div", tag("code", self.request.command), f" — {word}")
        self.children = [self.status]

    def __repr__(self) -> str:
        return f"<PermissionPrompt {self.request.command!r}>"


async def ask(request: PermissionRequest) -> Decision:
    """Show the prompt and wait for a click. An interrupt of the agent closes it."""
    prompt = PermissionPrompt(request)
    display(prompt)  # type: ignore[no-untyped-call]
    try:
        decision = await prompt.answered
    except asyncio.CancelledError:
        prompt.close_with("interrupted before an answer")
        raise
    prompt.close_with(
        ("allowed" + (" for the session" if decision.scope == "session" else "")) if decision.allowed else "not run"
    )
    return decision


def in_notebook() -> bool:
    """Whether this process is a kernel that can show buttons to someone."""
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _question(request: PermissionRequest) -> Markup:
    where = (" in ", tag("code", request.workspace)) if request.workspace else ()
    before = ("You allowed it earlier in this session, before it was resumed.",) if request.before else ()
    return tag("div", "The agent wants to run", *where, tag("pre", request.command, style="margin:4px 0"), *before)
