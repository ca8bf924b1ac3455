"""`%load_ext nova_nb`: a prompt cell `%%ask`, and the line magic `%nova explore | timeline | doctor`.

Knows: cells and names in the notebook. Does not know how an agent works. The kernel is the variable
`kernel`, or the only AgentKernel there is, or the one whose name stands after the magic.

A cell magic cannot wait, so `%%ask` is turned into `await …` before IPython reads the cell: the cell
shows the answer when the turn is over, and buttons work while it waits (ipykernel 7.4 or newer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from .agent.answer import Answer
from .agent.kernel import AgentKernel
from .errors import UsageError

VIEWS = ("explore", "timeline", "doctor")


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
    """The input transformation: a cell that begins with `%%ask` becomes one `await`.

    >>> ask_cell(["%%ask\\n", "Fix the test.\\n"])
    ["await __import__('nova_nb').magics.ask(get_ipython(), '', 'Fix the test.\\\\n')\\n"]
    """
    words = lines[0].split() if lines else []
    if words[:1] != ["%%ask"]:
        return lines
    return [f"await __import__('nova_nb').magics.ask(get_ipython(), {' '.join(words[1:])!r}, {''.join(lines[1:])!r})\n"]


async def ask(shell: InteractiveShell, name: str, text: str) -> Answer:
    """What `%%ask [name]` runs."""
    return await kernel_in(shell.user_ns, name).ask(text)


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


@magics_class
class NovaMagics(Magics):
    """`%nova explore`, `%nova timeline`, `%nova doctor`, each with the name of a kernel after it if there are several."""

    @line_magic
    def nova(self, line: str) -> Any:
        """Show a view of the agent's session: `%nova explore | timeline | doctor [kernel]`."""
        view, _, name = line.strip().partition(" ")
        if view not in VIEWS:
            raise UsageError(f"%nova {view or '…'}: write one of {', '.join(f'%nova {word}' for word in VIEWS)}")
        assert self.shell is not None
        kernel = kernel_in(self.shell.user_ns, name.strip())
        return kernel.session.diagnose() if view == "doctor" else getattr(kernel, view)()
