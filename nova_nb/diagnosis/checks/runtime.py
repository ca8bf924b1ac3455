"""Layer "runtime": the log is whole; the process that went on did not have it.

Knows: what usage says of a start without history, and where another file of the same session lies.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from ...errors import NotASession
from ..facts import Facts
from ..report import Finding
from .projection import explained, nearly_empty, shortfalls

MOST_FOLDERS = 2_000
"""Project folders that are looked into for another file of the session."""


def started_empty(facts: Facts) -> Iterator[Finding]:
    """The counted input of an answer has room for the current turn only: the request was built without the history."""
    if explained(facts):
        return
    for before, now in shortfalls(facts):
        if not nearly_empty(facts, now):
            continue
        witness = facts.witness
        expected = witness.expected(now.chars) if witness else before.context
        yield facts.finding(
            "started-empty", "runtime", "cause", list(now.rows),
            f"the answer at line {facts.log.lines[now.rows[0]]} was made from {now.context:,} input tokens, as the provider counted; "
            f"the history in the log would take about {expected:,.0f} (an estimate), so the process that asked did not have it",
            certainty="proved", fate="hidden",
            remedy="the log is whole: open the session again from it",
        )  # fmt: skip
        return


def moved_transcript(facts: Facts) -> Iterator[Finding]:
    """Another project folder holds a file of the same session with more of the conversation."""
    if facts.transcript is None:
        return
    here = Path(facts.session.path)
    others = [file for size, file in _siblings(here) if size]
    if not others:
        return
    best = others[-1]
    have, there = len(facts.conversation), _conversation_rows(best, facts.log.source.session_id)
    if there <= have:
        return
    yield facts.finding(
        "moved-transcript", "runtime", "cause", list(facts.conversation[:2]),
        f"another file of the same session, {best.parent.name}/{best.name}, holds {there} conversation records; this one was begun anew "
        f"with {have}, since the lookup went by the directory and not by the session",
        fate="hidden", remedy=f"open {best.parent.name}/{best.name}, or resume from the directory it was moved to",
    )  # fmt: skip


def _siblings(here: Path) -> list[tuple[int, Path]]:
    """(bytes, file) of each file of the same name in a neighbouring folder. Of a large store this is asked a thousand times."""
    found: list[tuple[int, Path]] = []
    own, tail = here.parent.name, f"{os.sep}{here.name}"
    try:
        with os.scandir(here.parent.parent) as entries:
            for entry in itertools.islice(entries, MOST_FOLDERS):
                file = entry.path + tail
                if entry.name != own and os.path.isfile(file) and not entry.is_symlink():
                    found.append((os.stat(file).st_size, Path(file)))
    except OSError:
        pass
    return sorted(found)


def _conversation_rows(path: Path, session: str) -> int:
    """Conversation records in a file that carry this session's id: the same file name alone says nothing. 0 where it
    is gone by now or may not be read."""
    from ...foreign.claude_code.read import stream

    try:
        return sum(row.speaks and row.session == session for _, row in stream(path))
    except NotASession:
        return 0
