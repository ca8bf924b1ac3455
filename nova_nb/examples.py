"""Small real material that ships with the package: workspaces to work in and sessions to open.

Knows: where it lies and how to write it out. Workspaces and the prompts that go with them are data
(`models/scenarios/*.toml`); sessions lie under `data/sessions/`, each with its origin and licence.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from .errors import UsageError

_HERE = Path(__file__).parent
SCENARIOS = _HERE / "models" / "scenarios"
SESSIONS = _HERE / "data" / "sessions"


def scenario(name: str) -> dict[str, Any]:
    """A scenario's data: `about`, `prompts` (name → text) and `files` (path → text).

    >>> scenario("shop")["prompts"]["rule"]
    'All timestamps are stored in UTC.'
    """
    known = _scenarios()
    if name not in known:
        raise UsageError(f"there is no example workspace {name!r}; choose one of {', '.join(sorted(known))}")
    return tomllib.loads(known[name].read_text("utf-8"))


def workspace(name: str, path: str | os.PathLike[str], reset: bool = False) -> Path:
    """Write an example workspace into the folder `path` and return it.

    The folder is made if needed. A file that is there with another text is refused with UsageError, so
    that no work is overwritten; `reset=True` puts the example's own files back (others stay).
    """
    root = Path(path)
    files = {root / file: text.removeprefix("\n") for file, text in scenario(name)["files"].items()}
    for file, text in files.items():
        if not reset and file.exists() and (not file.is_file() or file.read_text("utf-8", "replace") != text):
            raise UsageError(f"{file} is not as the example has it; choose an empty folder, or reset=True to put it back")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def path(name: str) -> Path:
    """The packaged session `name` (with or without its ending), for `nova_nb.open_session`."""
    for candidate in (SESSIONS / name, *sorted(SESSIONS.glob(f"{name}.*"))):
        if candidate.exists() and candidate.parent == SESSIONS:
            return candidate
    raise UsageError(f"there is no example session {name!r}; choose one of {', '.join(list()['sessions']) or '(none)'}")


def list() -> dict[str, tuple[str, ...]]:
    """Names that `workspace` and `path` take.

    >>> list()["workspaces"]
    ('shop',)
    """
    sessions = SESSIONS.iterdir() if SESSIONS.is_dir() else ()
    names = sorted(p.name for p in sessions if not p.name.endswith((".md", ".txt")))
    return {"workspaces": tuple(sorted(_scenarios())), "sessions": tuple(names)}


def _scenarios() -> dict[str, Path]:
    found = {p.stem: p for p in SCENARIOS.glob("*.toml")}
    return {name: p for name, p in found.items() if name != "habits"}
