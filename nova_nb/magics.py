"""`%load_ext nova_nb`: a prompt cell `%%ask`, and the line magic `%nova explore | timeline | doctor | verify | …`.

Knows: cells and names in the notebook. Does not know how an agent works. The kernel is the variable
`kernel`, or the only AgentKernel there is, or the one whose name stands after the magic.

A magic cannot wait, so `%%ask` and `%nova compact` are turned into `await …` before IPython reads the cell: the
cell shows the answer when the work is over, and buttons work while it waits (ipykernel 7.4 or newer).
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any, NoReturn

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from .agent.answer import Answer
from .agent.kernel import AgentKernel
from .errors import UsageError
from .views.text import visible
from .views.timeline import step_lines

VIEWS = ("explore", "timeline", "doctor", "verify", "requests", "compact")


def load(shell: InteractiveShell) -> None:
    """Register the magics; loading twice changes nothing."""
    shell.register_magics(NovaMagics)
    transforms = shell.input_transformer_manager.cleanup_transforms
    if ask_cell not in transforms:
        transforms.append(ask_cell)


def unload(shell: InteractiveShell) -> None:
    """Take them away again."""
    shell.input_transformer_manager.cleanup_transforms[:] = [
        transform for transform in shell.input_transformer_manager.cleanup_transforms if transform is not ask_cell
    ]


def ask_cell(lines: list[str]) -> list[str]:
    """The input transformation: a cell that begins with `%%ask`, or that is `%nova compact`, becomes one `await`.

    >>> ask_cell(["%%ask\\n", "Fix the test.\\n"])
    ["await __import__('nova_nb').magics.ask(get_ipython(), '', 'Fix the test.\\\\n')\\n"]
    """
    words = lines[0].split() if lines else []
    if words[:1] == ["%%ask"]:
        return [f"await __import__('nova_nb').magics.ask(get_ipython(), {' '.join(words[1:])!r}, {''.join(lines[1:])!r})\n"]
    if words[:2] == ["%nova", "compact"] and not "".join(lines[1:]).strip():
        return [f"await __import__('nova_nb').magics.compact(get_ipython(), {' '.join(words[2:])!r})\n"]
    return lines


async def ask(shell: InteractiveShell, name: str, text: str) -> Answer:
    """What `%%ask [name]` runs."""
    return await kernel_in(shell.user_ns, name).ask(text)


async def compact(shell: InteractiveShell, line: str) -> str:
    """What `%nova compact [--focus TEXT] [kernel]` runs; says what came of it."""
    words = _words(f"compact {line}")
    kernel = kernel_in(shell.user_ns, words.kernel)
    before = kernel.agent.projector.tokens
    if await kernel.compact(words.focus):
        return f"compacted: about {before:,} → {kernel.agent.projector.tokens:,} tokens (estimates)"
    return f"nothing changed: {kernel.agent.ledger[-1]['why'] if kernel.agent.ledger else 'interrupted'}"


def kernel_in(names: Mapping[str, Any], name: str = "") -> AgentKernel:
    """The AgentKernel meant by `name`, or, with "", the variable `kernel` or the only one there is. Raises UsageError."""
    found = {key: value for key, value in names.items() if isinstance(value, AgentKernel) and not key.startswith("_")}
    if name or "kernel" in found:
        if (name or "kernel") not in found:
            raise UsageError(f"{name} is no AgentKernel; there are: {', '.join(sorted(found)) or 'none yet'}")
        return found[name or "kernel"]
    distinct = list({id(value): value for value in found.values()}.values())
    if len(distinct) != 1:
        have = f"say which: {', '.join(sorted(found))}" if found else "make one first: kernel = nova_nb.AgentKernel(…)"
        raise UsageError(f"there is {'more than one' if found else 'no'} AgentKernel here; {have}")
    return distinct[0]


class _Line(argparse.ArgumentParser):
    """The words after `%nova`. A mistake is one sentence, never an exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{USAGE}: {message}")


USAGE = "%nova explore | timeline | doctor [--trace TEXT] | verify | requests [STEP [STEP]] | compact [--focus TEXT], and the kernel's name"


def _words(line: str) -> argparse.Namespace:
    parser = _Line(prog="%nova", add_help=False)
    parser.add_argument("view")
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--trace", default="")
    parser.add_argument("--focus", default="")
    try:
        words = parser.parse_intermixed_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"%nova {line}: {error}; close the quotes") from None
    words.steps = [int(word) for word in words.rest if word.isdecimal()]
    names = [word for word in words.rest if not word.isdecimal()]
    misplaced = [
        given
        for given, view in (("--trace", "doctor"), ("--focus", "compact"), ("a step", "requests"))
        if words.view != view and getattr(words, given.removeprefix("--").replace("a step", "steps"))
    ]
    if words.view not in VIEWS or len(names) > 1 or len(words.steps) > 2 or misplaced:
        what = f"{misplaced[0]} does not belong to {words.view}" if misplaced else "there is no such form"
        raise UsageError(f"%nova {line.strip() or '…'}: {what}; write {USAGE}")
    words.kernel = names[0] if names else ""
    return words


@magics_class
class NovaMagics(Magics):
    """`%nova VIEW`, with the name of a kernel after it if there are several."""

    @line_magic
    def nova(self, line: str) -> Any:
        """%nova explore | timeline | doctor [--trace TEXT] | verify | requests [STEP [STEP]] | compact [--focus TEXT]

        Shows a view of the agent's session as it stands now. `doctor` and `requests STEP` give a value, `verify`, `--trace`
        and `requests` print. `compact` waits, so it stands in a cell of its own. The kernel's name comes last, if needed.
        """
        words = _words(line)
        assert self.shell is not None
        kernel = kernel_in(self.shell.user_ns, words.kernel)
        session = kernel.session
        match words.view, words.steps:
            case "doctor", _ if words.trace:
                print(visible(str(session.trace(words.trace))))
            case "doctor", _:
                return session.diagnose()
            case "verify", _:
                print(visible(str(session.verify())))
            case "requests", []:
                print(visible("\n".join(step_lines(session.steps)) or "no model call yet"))
            case "requests", [step]:
                return session.request(step)
            case "requests", [step, other]:
                print(visible(f"step {step} → step {other}: {session.request(step).diff(session.request(other))}"))
            case "compact", _:
                raise UsageError("%nova compact waits for the model; put it in a cell of its own")
            case _:
                return getattr(kernel, words.view)()
        return None
