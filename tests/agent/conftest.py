"""A workspace with a few files, and a session folder beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nova_nb.agent.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root, session = tmp_path / "shop", tmp_path / "home" / "s1"
    (root / "src").mkdir(parents=True)
    (session / "tool-results").mkdir(parents=True)
    (root / "src" / "orders.py").write_text("def total(rows):\n    return sum(rows)\n")
    (root / "README.md").write_text("A shop.\n")
    (tmp_path / "secret.txt").write_text("outside")
    return Workspace(root, [session])
