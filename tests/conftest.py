"""Shared by all tests: where the larger real material lies, and a clock that does not move by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_nb.ids import Fixed

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Real sessions and captured requests, too large or not licensed to be copied here."""


def shared(name: str) -> Path:
    """A path under ../shared; the calling test is skipped by name where it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"../shared/{name} is not on this machine")
    return path


@pytest.fixture
def source() -> Fixed:
    """Ids that count and a clock that ticks a second a reading."""
    return Fixed()


@pytest.fixture(scope="session", autouse=True)
def nova_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where sessions go that a test gives no `home`: never among those of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOVA_HOME", str(home := tmp_path_factory.mktemp("nova-home")))
        yield home
