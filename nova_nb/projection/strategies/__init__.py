"""Ways to keep a conversation within its window, side by side, behind one protocol (R8.1).

Knows: their names. A strategy emits events, as Nova's own loop does, so what it did is in the log, has
provenance and is replayed like everything else; `rerun` runs any of them over any session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import UsageError
from ...settings import PRESETS, ContextSettings, settings_from
from .base import Strategy
from .baselines import Masking, MiddleCut
from .full import FullStack
from .layered import Layered
from .rolling import Rolling
from .windows import WindowByCount, WindowByTokens

STRATEGIES: dict[str, Callable[[ContextSettings], Strategy]] = {
    "full": FullStack,
    "window-count": WindowByCount,
    "window-tokens": WindowByTokens,
    "rolling-summary": Rolling,
    "layered": Layered,
    "layered-retrieval": lambda settings: Layered(settings, retrieval=True),
    "masking": Masking,
    "middle-cut": MiddleCut,
}
"""By name; each is made for the settings of a session."""


def strategy_for(policy: Any, settings: ContextSettings) -> tuple[Strategy, ContextSettings]:
    """A strategy and the settings it works with, from a strategy, its name, a preset's name, settings, or changes to
    the session's settings.

    >>> strategy_for("masking", ContextSettings())[0].name, strategy_for("workshop", ContextSettings())[1].window_tokens
    ('masking', 8000)
    """
    if isinstance(policy, str) and policy not in PRESETS:
        if policy not in STRATEGIES:
            names = ", ".join([*STRATEGIES, *PRESETS])
            raise UsageError(f"there is no strategy or preset {policy!r}; choose one of {names}")
        return STRATEGIES[policy](settings), settings
    if policy is None or isinstance(policy, str | ContextSettings):
        chosen = settings if policy is None else settings_from(policy)
        return FullStack(chosen), chosen
    if isinstance(policy, dict):
        changed = ContextSettings(**{**settings.model_dump(), **policy})
        return FullStack(changed), changed
    if callable(getattr(policy, "before_request", None)):
        return policy, settings
    raise UsageError(f"a policy is settings, a preset or strategy name, or a strategy, not {type(policy).__name__}")


__all__ = ["STRATEGIES", "Strategy", "strategy_for"]
