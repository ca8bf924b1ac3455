"""The logical chain: which events the next step continues from.

Knows: parents, boundaries, heads, branches of Nova's own events. Does not know what the model
sees of them. All functions are pure; `fold` is the only place that says what an event does to
the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from .events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    MessageAppended,
    PromptSet,
    RuntimeStateCheckpointed,
    SessionStarted,
)

Node = MessageAppended | CompactionBoundaryCreated
"""Events that are nodes of the chain."""


def head_of(events: Iterable[Event]) -> str | None:
    """The recorded head: the last node appended or selected, never the newest timestamp."""
    head: str | None = None
    for event in events:
        if isinstance(event, Node):
            head = event.id
        elif isinstance(event, BranchSelected):
            head = event.leaf
    return head


def nodes(events: Iterable[Event]) -> dict[str, Node]:
    """All nodes by id, in the order of the log."""
    return {event.id: event for event in events if isinstance(event, (MessageAppended, CompactionBoundaryCreated))}


def walk(by_id: dict[str, Node], leaf: str | None) -> list[Node]:
    """The active chain, oldest first: from `leaf` by parents to a root or to the newest boundary.

    A boundary brings the messages it keeps directly after itself. A parent that is missing or
    met again ends the walk (the log's checks report it).

    >>> walk({}, None)
    []
    """
    chain: list[Node] = []
    seen: set[str] = set()
    at = leaf
    while at is not None and at in by_id and at not in seen:
        seen.add(at)
        node = by_id[at]
        chain.append(node)
        at = node.parent
    chain.reverse()
    if chain and isinstance(chain[0], CompactionBoundaryCreated):
        kept = [by_id[id] for id in chain[0].kept if id in by_id]
        chain[1:1] = kept
    return chain


def path_to_root(by_id: dict[str, Node], leaf: str | None) -> list[Node]:
    """Everything the leaf descends from, boundaries crossed by their logical parent, oldest first."""
    path: list[Node] = []
    seen: set[str] = set()
    at = leaf
    while at is not None and at in by_id and at not in seen:
        seen.add(at)
        node = by_id[at]
        path.append(node)
        at = node.logical_parent if isinstance(node, CompactionBoundaryCreated) else node.parent
    return path[::-1]


def carried(events: Iterable[Event], path: Set[str]) -> Iterator[bool]:
    """Whether each event gives the way along the nodes `path` its meaning: its nodes, and what was logged while the head
    was one of them (commits, requests, …). What happened on other branches does not, but for prompts and checkpoints:
    they are of the session, whatever branch it was on. The session's start is none of it.
    """
    on = True
    for event in events:
        if isinstance(event, (MessageAppended, CompactionBoundaryCreated)):  # a tuple is three times faster here
            yield (on := event.id in path)
        elif isinstance(event, BranchSelected):
            yield (on := event.leaf is None or event.leaf in path)
        else:
            yield isinstance(event, PromptSet | RuntimeStateCheckpointed) or (on and not isinstance(event, SessionStarted))


def leaves(events: Sequence[Event]) -> list[str]:
    """Ids of nodes without a child, in the order of the log: one a branch."""
    parents: set[str] = set()
    order: list[str] = []
    for event in events:
        if isinstance(event, Node):
            order.append(event.id)
            up = event.logical_parent if isinstance(event, CompactionBoundaryCreated) else event.parent
            if up is not None:
                parents.add(up)
    return [id for id in order if id not in parents]
