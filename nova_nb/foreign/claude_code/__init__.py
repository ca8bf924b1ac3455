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
    t = _of(log)
    own = [i for i in t.spoken if t.own(i)]
    chosen = next((i for i in reversed(own) if not t.rows[i].api_error), own[-1] if own else None)
    if chosen is None:
        return Leaf(None, None, "last-in-file")
    return Leaf(t.id(chosen), t.lines[chosen], "last-in-file", _alternatives(t, own, chosen))


def _alternatives(t: Transcript, own: list[int], chosen: int) -> tuple[Leaf, ...]:
    """What other rules would have chosen, where that differs."""
    latest = max(own, key=lambda i: (t.rows[i].at or "", i))
    found = [(own[-1], "last-row"), (latest, "newest-timestamp"), (_deepest(t, own), "longest-chain")]
    named: dict[int, str] = {}
    for i, policy in found:
        if i != chosen:
            named.setdefault(i, policy)
    return tuple(Leaf(t.id(i), t.lines[i], policy) for i, policy in named.items())


def _deepest(t: Transcript, own: list[int]) -> int:
    """The record with the most conversation records on its bare chain; the last of several."""
    depth: dict[int, int] = {}
    for i in own:
        path: list[int] = []
        at: int | None = i
        onpath: set[int] = set()
        while at is not None and at not in depth and at not in onpath:
            onpath.add(at)
            path.append(at)
            at = t.up(at)
        base = depth.get(at, 0) if at is not None else 0
        for k in reversed(path):
            base += t.rows[k].speaks
            depth[k] = base
    return max(own, key=lambda i: (depth[i], i))


def _position(log: Log, id: str | None) -> int | None:
    return None if id is None else log.index.get(id)


def reachable(log: Log, leaf: str | None = None) -> list[str]:
    t = _of(log)
    at = _position(log, leaf if leaf is not None else globals()["leaf"](log).record)
    if at is None:
        return []
    return [t.id(i) for i in t.to_root(at) if t.rows[i].speaks]


def shown(log: Log) -> list[str] | None:
    t = _of(log)
    on_branch = set(reachable(log))
    return [t.id(i) for i in t.spoken if t.id(i) in on_branch and not t.rows[i].hidden and not t.rows[i].summary]


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
    return following(story, _position(log, leaf(log).record)) if step is None else as_sent(story.calls[step - 1])


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
