"""Many sessions at a glance: one row each, on all cores, as they come.

Knows: where sessions lie below a folder, and what a row says. Does not print.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..errors import NovaError
from ..foreign.base import Format, SessionInfo
from ..foreign.detect import format_of
from .report import Diagnosis

FEW = 4
"""Sessions up to which a process pool costs more than it gives."""

Diagnose = Callable[[str, str | None], Diagnosis]
"""(path, session id) → diagnosis; a function at the top of a module, since other processes call it"""


class Row(BaseModel):
    """One session of a survey. Figures are None where the session could not be read or a rule is not known."""

    model_config = ConfigDict(frozen=True)

    path: str
    session_id: str = ""
    format: str = ""
    verdict: str
    """"fault", "clear", "undecidable", or "unreadable" """
    on_disk: int | None = None
    reachable: int | None = None
    in_request: int | None = None
    compactions: int | None = None
    dead_artifacts: int | None = None
    causes: tuple[str, ...] = ()
    """"layer/code" of each cause"""
    error: str | None = None

    @property
    def share(self) -> float | None:
        """Reachable part of what is on disk, 0 to 1."""
        return None if not self.on_disk or self.reachable is None else self.reachable / self.on_disk


def sessions_below(folder: Path) -> list[SessionInfo]:
    """Sessions in a folder and below it. Subagents' files are left out, since they belong to their parent's session."""
    found: list[SessionInfo] = []
    for root, folders, files in os.walk(folder):
        here = Path(root)
        if _one_session(here):
            folders.clear()
            found += _infos(here)
            continue
        folders.sort()
        for file in sorted(files):
            found += _infos(here / file)
    return found


def _one_session(folder: Path) -> bool:
    """Whether a folder as a whole is a session, as with agents that keep a file an event."""
    infos = _infos(folder)
    return len(infos) == 1 and Path(infos[0].path) == folder


def _infos(path: Path) -> list[SessionInfo]:
    format = _format(path)
    try:
        return [] if format is None else [info for info in format.list_sessions(path) if info.parent is None or info.fork]
    except (NovaError, OSError):
        return []


def _format(path: Path) -> Format | None:
    try:
        return format_of(path)
    except (NovaError, OSError):
        return None


def survey(infos: list[SessionInfo], diagnose: Diagnose, workers: int | None = None) -> Iterator[Row]:
    """A row for each session, in the order given, as soon as it is known."""
    jobs = [(info.path, info.session_id or None) for info in infos]
    count = workers or os.cpu_count() or 1
    if len(jobs) <= FEW or count == 1:
        yield from (row_of(diagnose, path, id) for path, id in jobs)
        return
    with ProcessPoolExecutor(count) as pool:
        yield from pool.map(row_of, [diagnose] * len(jobs), *zip(*jobs, strict=True), chunksize=4)


def row_of(diagnose: Diagnose, path: str, session_id: str | None) -> Row:
    """The row of one session. A session that cannot be read is a row that says so."""
    try:
        report = diagnose(path, session_id)
    except NovaError as error:
        return Row(path=path, session_id=session_id or "", verdict="unreadable", error=str(error))
    dead = sum(f.layer == "artifact" and f.role == "cause" for f in report.findings)
    return Row(
        path=path,
        session_id=session_id or "",
        format=report.session.format,
        verdict=report.verdict,
        on_disk=report.counts.on_disk,
        reachable=report.counts.reachable,
        in_request=report.counts.in_request,
        compactions=report.session.compactions,
        dead_artifacts=dead,
        causes=tuple(f"{f.layer}/{f.code}" for f in report.causes),
    )
