"""From what a person writes to a model: "offline", "claude-…", "gpt-…", or an object that is one already.

Knows: which name belongs to which provider. Imports no provider until its name is asked for.
"""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..ids import Source
from .base import Model


def resolve(model: str | Model, base_url: str | None = None, source: Source | None = None, **options: Any) -> Model:
    """The model for a name. `options` go to the provider's class; `source` is the clock of the offline model.

    Raises UsageError for a name that belongs to no provider, MissingExtra when its package is not installed.

    >>> resolve("offline").provider
    'offline'
    """
    if not isinstance(model, str):
        if not hasattr(model, "send"):
            raise UsageError(f"a model is a name or an object with an async `send(body)`, not {type(model).__name__}")
        return model
    if model == "offline":
        if base_url is not None:
            raise UsageError('base_url has no meaning for model="offline"; leave it out, or name a "claude-…" model')
        from .offline import OfflineModel

        return OfflineModel(source=source, **options)
    if model.startswith("claude"):
        from .anthropic import AnthropicModel

        return AnthropicModel(model, base_url=base_url, **options)
    if model.startswith(("gpt", "o1", "o3", "o4", "codex")):
        raise UsageError(f'{model!r} is an OpenAI model, which this version cannot call; use "offline" or a "claude-…" name')
    raise UsageError(f'{model!r} names no model that Nova knows; use "offline", a "claude-…" name, or pass a Model object')
