"""A resume, step by step, as frames of plain data: what a picture of it is drawn from.

Knows: the order of SPEC 6.1 and the numbers of each step. Does not read files and draws nothing;
what the projection repaired is told to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .chain import head_of, nodes, path_to_root, walk
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
    """One step. `numbers` are what it counted, by name, in the order to show them; `ids` the events it is about."""

    name: str
    """"load" | "leaf" | "walk" | "boundary" | "commits" | "repair" | "restore" """
    title: str
    sentence: str
    numbers: dict[str, int]
    ids: tuple[str, ...] = ()


def resume_frames(log: Log, repairs: Sequence[str] = ()) -> tuple[Frame, ...]:
    """How a session is read back, from its whole log. `repairs` are the reasons of the repairs that the next request holds.

    >>> from .log import Source
    >>> [frame.name for frame in resume_frames(Log(Source("x", "nova"), [], []))]
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
    return (
        Frame(
            "load", "Load the log", f"{len(events)} events in {log.source.size} bytes; {len(log.damage)} damaged lines",
            {"events": len(events), "messages": messages, "model calls": steps, "bytes": log.source.size, "damaged lines": len(log.damage)},
        ),
        Frame(
            "leaf", "Find the leaf",
            "the log holds no message yet" if head is None else f"the recorded head is {head}, on line {log.line(head)}; no timestamp is asked",
            {"branches": len(_leaves(path, by_id))}, () if head is None else (head,),
        ),
        Frame("walk", "Walk the parents", f"{len(chain)} nodes from the leaf back", {"nodes": len(chain)}, tuple(n.id for n in chain)),
        Frame(
            "boundary", "Stop at the boundary",
            f"{boundary.id} stands for {behind} nodes before it and keeps {kept} verbatim" if boundary else "no boundary: the walk ends at the root",
            {"behind the boundary": behind, "kept verbatim": kept}, (boundary.id,) if boundary else (),
        ),
        Frame(
            "commits", "Replay the commits", f"{len(commits)} commits in force, {len(undone)} undone; none is decided again",
            {"in force": len(commits), "undone": len(undone)}, tuple(c.id for c in commits),
        ),
        Frame(
            "repair", "Make protocol units whole",
            "; ".join([*(f"{c.name} ({c.id}): {c.state}" for c in calls), *sorted(set(repairs))]) or "every call has its result",
            {"open calls": len(calls), "repairs": len(repairs)}, tuple(c.id for c in calls),
        ),
        Frame(
            "restore", "Restore the state",
            "no checkpoint is recorded" if state is None else f"{len(state.files)} files read last, {len(state.tools)} tools used, in {state.cwd or 'no directory'}",
            {"files": len(state.files) if state else 0, "tools": len(state.tools) if state else 0},
        ),
    )  # fmt: skip


def _leaves(path: Sequence[object], by_id: dict[str, MessageAppended | CompactionBoundaryCreated]) -> set[str]:
    parents = {n.logical_parent if isinstance(n, CompactionBoundaryCreated) else n.parent for n in by_id.values()}
    return set(by_id) - {p for p in parents if p is not None}
