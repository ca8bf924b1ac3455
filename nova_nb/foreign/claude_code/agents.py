"""Subagents' own files, and what they tell about the session that they belong to.

Knows: the two layouts beside a transcript (`agent-<id>.jsonl` in the project folder, 2.0;
`<session>/subagents/agent-<id>.jsonl`, since 2.1), and that clients of 2.0 sent three `Warmup` agents
whenever a process started. Inline side chains (1.0) are in the transcript itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...history.events import MessageAppended
from ...history.log import Log
from .read import head, read_file

_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]{1,80})"')


@dataclass(frozen=True)
class Agent:
    """One subagent's file. `kind` is "subagent", "warmup" or "compact"."""

    log: Log
    kind: str
    started: str
    """time of its first row"""
    session: str | None
    """the session id on its first row: that of the process, which is another one after a resume of 2.0"""


def files_of(transcript: Path, session: str) -> list[Path]:
    """Subagents' files of a transcript, wherever its version put them; never outside its folder."""
    folder = transcript.parent
    own = folder / transcript.stem / "subagents"
    found = [*sorted(own.glob("agent-*.jsonl")), *sorted(own.glob("*/*/agent-*.jsonl"))]
    beside = [
        path for path in sorted(folder.glob("agent-*.jsonl")) if path != transcript and session.encode() in _sessions(path)
    ]
    root = folder.resolve()
    return [path for path in (*found, *beside) if path.is_file() and path.resolve().is_relative_to(root)]


def _sessions(path: Path) -> set[bytes]:
    return set(_SESSION.findall(head(path)))


def agents_of(transcript: Path, session: str) -> list[Agent]:
    """The subagents of a session, read. A subagent has none of its own."""
    if transcript.name.startswith("agent-"):
        return []
    return [_agent(path) for path in files_of(transcript, session)]


def _agent(path: Path) -> Agent:
    log = read_file(path)
    first = next((e for e in log.events if isinstance(e, MessageAppended)), None)
    text = first.content[0].get("text") if first is not None and first.content else None
    kind = "compact" if path.name.startswith("agent-acompact") else "warmup" if text == "Warmup" else "subagent"
    session = log.native.rows[0].session if log.native.rows else None
    return Agent(log, kind, first.at if first is not None else "", session)


def resumes(agents: list[Agent], session: str) -> list[str]:
    """Times at which a process started by resuming the session, oldest first; known only from warm-ups of 2.0."""
    starts: dict[str, str] = {}
    for agent in agents:
        if agent.kind == "warmup" and agent.session is not None and agent.session != session and agent.started:
            starts[agent.session] = min(agent.started, starts.get(agent.session, agent.started))
    return sorted(starts.values())
