"""How long the diagnosis takes beside opening the session: `python benchmarks/diagnosis.py SESSION [FOLDER]`.

Prints ratios against `open_session` of the same file in the same process, and of a folder the time of
its table against the time of opening each of its sessions. Absolute times depend on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nova_nb as nova
from nova_nb.cli import diagnose_path
from nova_nb.diagnosis.survey import sessions_below, survey


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def one(path: str, word: str = "parse config") -> None:
    opened, session = timed(lambda: nova.open_session(path))
    print(f"{path}: {Path(path).stat().st_size / 1e6:.0f} MB, {len(session.log.events):,} events, opened in {opened:.1f} s")
    for name, work in {
        "steps": lambda: session.steps,
        "diagnose": session.diagnose,
        "trace a word": lambda: session.trace(word),
        "trace what is not there": lambda: session.trace("no such words anywhere"),
        "why_forgot": lambda: session.why_forgot(word),
    }.items():
        took, _ = timed(work)
        print(f"  {name:24} {took / opened:5.2f} × open ({took:.1f} s)")


def folder(path: str) -> None:
    infos = sessions_below(Path(path))
    opened, _ = timed(lambda: [nova.open_session(info.path, info.session_id or None) for info in infos])
    for workers in (1, None):
        took, rows = timed(lambda workers=workers: list(survey(infos, diagnose_path, workers)))
        print(
            f"{path}: {len(rows)} sessions, table in {took / opened:.2f} × opening them one by one ({took:.1f} s), {workers or 'all'} cores"
        )


if __name__ == "__main__":
    one(sys.argv[1])
    for path in sys.argv[2:]:
        folder(path)
