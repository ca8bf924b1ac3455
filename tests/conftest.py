"""Shared by all tests: where the larger real material lies, and a clock that does not move by itself."""

from __future__ import annotations

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
