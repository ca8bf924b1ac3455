"""A resume, step by step, as frames of plain data: what a picture of it is drawn from.

Knows: the order of SPEC 6.1 and the numbers of each step. Does not read files and draws nothing;
what the projection repaired is told to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .chain import head_of, leaves, nodes, path_to_root, walk
from .events import (
    CompactionBoundaryCreated,
    MessageAppended,
    ProjectionCommitted,
    ProjectionUndone,
    RequestSent,
    SessionStarted,
)
from .interrupted import open_calls
from .log import Log
from .runtime import recorded


class Frame(msgspec.Struct, frozen=True):
    """One picture: a title, one sentence, and the numbers and ids behind it (JSON values only)."""

    title: str
    text: str
    data: dict[str, Any] = {}


class Replay(msgspec.Struct, frozen=True):
    """`frames` of the n-th event of a kind ("compaction", "resume"), in order."""

    kind: str
    n: int
    frames: list[Frame]

    def __repr__(self) -> str:
        lines = [f"{self.kind} {self.n}: {len(self.frames)} frames"]
        return "\n".join([*lines, *(f"{i}. {f.title}: {f.text}" for i, f in enumerate(self.frames, 1))])


def resume(log: Log, repairs: Sequence[str] = ()) -> Replay:
    """How a session is read back, from its whole log. `repairs` are the reasons of the repairs that the next request holds.

    Each frame's data has its `step` (as below), the `numbers` it counted by name, and the `ids` it is about.

    >>> from .log import Source
    >>> [frame.data["step"] for frame in resume(Log(Source("x", "nova"), [], [])).frames]
    ['load', 'leaf', 'walk', 'boundary', 'commits', 'repair', 'restore']
    """
    events, by_id = log.events, nodes(log.events)
    head = head_of(events)
    if head is None and events and isinstance(events[0], SessionStarted) and events[0].origin:
        head = events[0].origin.get("node")
    chain, path = walk(by_id, head), path_to_root(by_id, head)
    first = chain[0] if chain else None
    boundary = first if isinstance(first, CompactionBoundaryCreated) else None
    messages = sum(isinstance(e, MessageAppended) for e in events)
    steps = sum(isinstance(e, RequestSent) for e in events)
    undone = {e.commit for e in events if isinstance(e, ProjectionUndone)}
    on_path = {node.id for node in path}
    commits = [
        e for e in events if isinstance(e, ProjectionCommitted) and e.id not in undone and (e.leaf is None or e.leaf in on_path)
    ]
    behind = len(path) - len([n for n in chain if n.id in on_path])
    calls = open_calls(chain, events)
    state = recorded(events)
    kept = len(boundary.kept) if boundary else 0
    damaged = len(log.damage)
    open_text = [f"{c.name} ({c.id}): {c.state}" for c in calls]
    frames = [
        _frame("load", "Load the log", f"{len(events)} events in {log.source.size} bytes, {damaged} damaged lines",
               {"events": len(events), "messages": messages, "model calls": steps, "bytes": log.source.size, "damaged lines": damaged}),
        _frame("leaf", "Find the leaf",
               f"the recorded head is {head}, on line {log.line(head)}; no timestamp is asked" if head else "the log holds no message yet",
               {"branches": len(leaves(events))}, [head] if head else []),
        _frame("walk", "Walk the parents", f"{len(chain)} nodes from the leaf back", {"nodes": len(chain)}, [n.id for n in chain]),
        _frame("boundary", "Stop at the boundary",
               f"{boundary.id} stands for {behind} nodes before it and keeps {kept} verbatim" if boundary
               else "no boundary: the walk ends at the root",
               {"behind the boundary": behind, "kept verbatim": kept}, [boundary.id] if boundary else []),
        _frame("commits", "Replay the commits", f"{len(commits)} commits in force, {len(undone)} undone; none is decided again",
               {"in force": len(commits), "undone": len(undone)}, [c.id for c in commits]),
        _frame("repair", "Make protocol units whole",
               "; ".join([*open_text, *sorted(set(repairs))]) or "every call has its result",
               {"open calls": len(calls), "repairs": len(repairs)}, [c.id for c in calls]),
        _frame("restore", "Restore the state",
               f"{len(state.files)} files read last, {len(state.tools)} tools used, in {state.cwd or 'no directory'}" if state
               else "no checkpoint is recorded",
               {"files": len(state.files) if state else 0, "tools": len(state.tools) if state else 0}),
    ]  # fmt: skip
    return Replay("resume", 1, frames)


def _frame(step: str, title: str, text: str, numbers: dict[str, int], ids: Sequence[str] = ()) -> Frame:
    return Frame(title, text, {"step": step, "numbers": numbers, "ids": list(ids)})
