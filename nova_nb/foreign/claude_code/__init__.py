"""Claude Code sessions: the `Format` of `~/.claude/projects/<folder>/<session>.jsonl`.

Knows: nothing itself; it puts the parts together. `schema` types the rows, `read` makes a log of a
file, `chain` says which rows a branch holds, `steps` finds the model calls, `wire` words rows as the
agent did, `recorded` and `wording` set that beside the requests that the log holds. docs/formats/claude-code.md tells the rules with their versions and evidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import SessionNotFound
from ...history.log import Log
from ...projection.pieces import Projection, messages_of
from ...projection.verify import Verification
from ..base import Leaf, SessionInfo, Step
from . import read as _read
from .chain import Transcript
from .proof import prove
from .read import NAME, raw, stream
from .recorded import prompt
from .steps import Story
from .wording import as_sent, following, worded

__all__ = [
    "body",
    "conversation",
    "leaf",
    "list_sessions",
    "name",
    "project",
    "raw",
    "reachable",
    "read",
    "rebuild",
    "shown",
    "sniff",
    "steps",
    "stream",
    "verify",
]

name = NAME


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return bool(_read.transcripts(path))
    return _read.is_transcript(head)


def list_sessions(path: Path) -> list[SessionInfo]:
    return _read.list_sessions(path)


def read(path: Path, session_id: str | None = None) -> Log:
    log = _read.read_file(_read.choose(path, session_id))
    if session_id is not None and session_id not in _read.names_of(log):
        raise SessionNotFound(
            f"{path}: there is no session {session_id} in it; it holds {', '.join(sorted(_read.names_of(log)))}"
        )
    return log


def _of(log: Log) -> Transcript:
    transcript = log.native
    assert isinstance(transcript, Transcript)
    return transcript


def conversation(log: Log) -> list[str]:
    t = _of(log)
    return [t.id(i) for i in t.spoken]


def leaf(log: Log) -> Leaf:
    return _of(log).leaf


def reachable(log: Log, leaf: str | None = None) -> list[str]:
    t = _of(log)
    rows = t.active if leaf is None else t.to_root(log.index[leaf]) if leaf in log.index else []
    return [t.id(i) for i in rows if t.rows[i].speaks]


def shown(log: Log) -> list[str] | None:
    t = _of(log)
    on_branch = set(t.active)
    return [t.id(i) for i in t.spoken if i in on_branch and not t.rows[i].hidden and not t.rows[i].summary]


def _story(log: Log) -> Story:
    """The log with what lies beside it; made once a log."""
    t = _of(log)
    if not isinstance(t.story, Story):
        t.story = Story(log)
    return t.story


def steps(log: Log) -> tuple[Step, ...]:
    return tuple(call.step for call in _story(log).calls)


def project(log: Log, step: int | None = None) -> Projection:
    story = _story(log)
    return following(story, story.transcript.end) if step is None else as_sent(story.calls[step - 1])


def passed_by(log: Log, step: int) -> dict[str, tuple[str, str]]:
    """Rows of the branch that a step's request lacked because a resuming process walked by parents alone: id → (layer, reason)."""
    call = _story(log).calls[step - 1]
    return call.story.passed_by(call.leaf, call.limit)


def rebuild(log: Log, step: int) -> Projection:
    """A step's request from the rows of the conversation alone, without the request rows of the newest versions."""
    return worded(_story(log).calls[step - 1])


def verify(log: Log) -> Verification:
    """Every request that the log records derived again from its conversation rows, and compared."""
    return prove(_story(log), log)


def body(log: Log, projection: Projection, step: int | None = None) -> dict[str, Any] | None:
    call = _story(log).calls[step - 1] if step is not None else None
    if call is None or call.sent is None:
        return None
    system, tools, params = prompt(call.story.recorded, call.sent)
    known = {"system": system, "tools": tools}
    return {**params, **{k: v for k, v in known.items() if v is not None}, "messages": messages_of(projection.pieces)}
