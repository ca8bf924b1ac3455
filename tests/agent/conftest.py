"""A workspace with a few files, and a session folder beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nova_nb.agent.kernel import AgentKernel
from nova_nb.agent.workspace import Workspace
from nova_nb.ids import Fixed
from tests.agent.scripted import Scripted


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root, session = tmp_path / "shop", tmp_path / "home" / "s1"
    (root / "src").mkdir(parents=True)
    (session / "tool-results").mkdir(parents=True)
    (root / "src" / "orders.py").write_text("def total(rows):\n    return sum(rows)\n")
    (root / "README.md").write_text("A shop.\n")
    (tmp_path / "secret.txt").write_text("outside")
    return Workspace(root, [session])


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., AgentKernel]:
    """Makes a kernel over a small workspace, with a scripted model and reproducible ids."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "orders.py").write_text("def total(rows):\n    return sum(rows)\n")

    def kernel(*script: Any, **options: Any) -> AgentKernel:
        model = options.pop("model", None) or Scripted(*script)
        return AgentKernel(root, model, **{"home": tmp_path / "home", "ids": Fixed(), "permission": "allow", **options})

    return kernel
