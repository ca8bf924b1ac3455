"""Nova: see, run and debug what a coding agent remembers.

Importing this loads nothing heavy: widgets, model SDKs and formats come when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import NovaError

if TYPE_CHECKING:
    from .agent.kernel import AgentKernel
    from .diagnosis.compare import compare
    from .session import Session, list_sessions, open_session
    from .settings import ContextSettings

__version__ = "0.1.0"

_HOMES = {
    "AgentKernel": "agent.kernel",
    "ContextSettings": "settings",
    "Session": "session",
    "compare": "diagnosis.compare",
    "list_sessions": "session",
    "open_session": "session",
}

__all__ = ["AgentKernel", "ContextSettings", "NovaError", "Session", "compare", "list_sessions", "open_session"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in {"errors", "examples", "ids", "magics", "settings"}:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'nova_nb' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext nova_nb`: the magics `%%ask` and `%nova`."""
    importlib.import_module(".magics", __name__).load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext nova_nb`."""
    importlib.import_module(".magics", __name__).unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "examples"})
