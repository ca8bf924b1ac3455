"""The agent kernel: the whole stack of one agent, in one object for a notebook or a script.

Knows: how a log, a projector, a model and the tools are put together. Does not know how any of
them works.
"""

from __future__ import annotations


class AgentKernel:
    """A live agent in a workspace."""
