"""Layer "branch": the records are on disk, but the leaf leads past them.

Knows: forks, roots, and what tells a person's rewind from a branch that nobody chose. A rewind is a
turn of the person, made after the branch it leaves had come to rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...history.events import MessageAppended
from ..facts import Facts, Fork
from ..report import Finding, many

LINKED = frozenset({"claude-code", "nova", "openhands", "pi"})
"""Agents whose rows name their parents: only there is a branch something that the log records."""


def injected_root(facts: Facts) -> Iterator[Finding]:
    """The active branch begins at a second root that no person and no boundary made."""
    if facts.log.source.format not in LINKED or not facts.path:
        return
    root = facts.path[0]
    event = facts.message(root)
    if event is None or event.parent is not None or event.meta.get("summary") or facts.person(root):
        return
    before = [i for i in facts.conversation if i < root and i not in facts.reachable and not facts.side(i)]
    if not any(facts.person(i) for i in before) or len(before) < 2:
        return
    yield facts.finding(
        "injected-root", "branch", "cause", [root],
        f"line {facts.log.lines[root]} is a row (role {event.role}) without a parent, appended to a conversation that was under way; "
        f"everything after it hangs from it, which leaves {many(len(before), 'record')} before it on disk, off the branch",
        fate="unreachable",
        remedy=f"continue from line {facts.log.lines[before[-1]]}, the end of the conversation before it",
    )  # fmt: skip


def late_graft(facts: Facts) -> Iterator[Finding]:
    """The leaf is an answer to an old call, written long after the conversation had gone on elsewhere."""
    if facts.log.source.format not in LINKED:
        return
    for fork in facts.forks:
        side = [i for i in facts.path if i >= fork.taken and i > max(fork.others)]
        if _speaks(facts, side) or not side or side[-1] != facts.path[-1] or not _is_result(facts, side[0]):
            continue
        other = [i for first in fork.others for i in facts.below(first) if isinstance(facts.events[i], MessageAppended)]
        other = [i for i in other if i not in facts.reachable]
        if _speaks(facts, other) and min(other) < side[0]:
            yield _graft(facts, _call_of(facts, side[0]), side, other)
            return
    yield from _graft_without_fork(facts)


def _graft_without_fork(facts: Facts) -> Iterator[Finding]:
    """The same, where the old call is itself a dead end: the conversation went on from a row above it."""
    if len(facts.path) < 2:
        return
    leaf = facts.path[-1]
    call = _call_of(facts, leaf)
    if call is None or not _is_result(facts, leaf):
        return
    between = [i for i in facts.conversation if call < i < leaf and i not in facts.reachable and not facts.side(i)]
    if _speaks(facts, between) and not _speaks(facts, [i for i in facts.path if i > call and not _same_answer(facts, i, call)]):
        yield _graft(facts, call, [i for i in facts.path if i > between[0]], between)


def _graft(facts: Facts, call: int | None, side: list[int], other: list[int]) -> Finding:
    ids = {facts.events[k].id for k in side}
    tail = [i for i in range(side[0], len(facts.events)) if facts.parent(i) in ids]
    rows = [i for i in (call, *side, *tail) if i is not None]
    turns = sum(facts.person(i) for i in other)
    after = f"{many(turns, 'further turn')} of the person" if turns else many(len(other), "further record")
    return facts.finding(
        "late-graft", "branch", "cause", list(dict.fromkeys(rows)),
        f"line {facts.log.lines[side[0]]} answers an old call (line {facts.log.lines[call] if call is not None else '?'}) after "
        f"{after} on another branch; as the newest row it became the leaf, which leaves {many(len(other), 'record')} "
        "off the active branch",
        fate="unreachable",
        remedy=f"continue from line {facts.log.lines[max(other)]}, the end of the real conversation",
    )  # fmt: skip


def turn_on_stale_leaf(facts: Facts) -> Iterator[Finding]:
    """A turn of the person was attached to an older answer while a later turn was still running."""
    if facts.log.source.format not in LINKED:
        return
    for fork in facts.forks:
        if not facts.person(fork.taken):
            continue
        other = _left(facts, fork)
        if not other or not any(facts.person(i) for i in other) or not _still_running(facts, other, fork.taken):
            continue
        queued = [
            i for i in range(max(0, fork.taken - 6), fork.taken) if getattr(facts.events[i], "kind", "").startswith("queue-operation")
        ]  # fmt: skip
        yield facts.finding(
            "turn-on-stale-leaf", "branch", "cause", [*queued[-1:], fork.taken],
            f"the message at line {facts.log.lines[fork.taken]} was attached to an older answer while the turn at line "
            f"{facts.log.lines[min(other)]} and after was still running; the other side of that fork holds {many(len(other), 'record')}",
            fate="unreachable",
            remedy=f"the other branch ends at line {facts.log.lines[max(other)]}; both overlap in time, so this was no rewind",
        )  # fmt: skip


def _still_running(facts: Facts, other: list[int], taken: int) -> bool:
    """Whether the other side began before a row and the model still answered on it afterwards."""
    answers = [i for i in other if (m := facts.message(i)) is not None and m.origin == "model"]
    start, end = facts.seconds(taken), _last_seconds(facts, answers)
    return (
        bool(answers)
        and min(other) < taken
        and (max(answers) > taken or (start is not None and end is not None and end > start))
    )


def rewound(facts: Facts) -> Iterator[Finding]:
    """A branch that the person left on purpose: worth knowing, no fault."""
    if facts.log.source.format not in LINKED:
        return
    for fork in facts.forks:
        if not facts.person(fork.taken):
            continue
        other = _left(facts, fork)
        if other and not _still_running(facts, other, fork.taken) and min(other) < fork.taken:
            yield facts.finding(
                "rewound", "branch", "note", [fork.taken],
                f"the person went back and on from another point at line {facts.log.lines[fork.taken]}; the branch left behind holds "
                f"{many(len(other), 'record')}, on disk and not in the request",
                fate="unreachable",
            )  # fmt: skip


def _left(facts: Facts, fork: Fork) -> list[int]:
    rows = {i for first in fork.others for i in facts.below(first)}
    return sorted(i for i in rows if isinstance(facts.events[i], MessageAppended) and i not in facts.reachable)


def _last_seconds(facts: Facts, rows: list[int]) -> float | None:
    times = [t for t in map(facts.seconds, rows) if t is not None]
    return max(times, default=None)


def _speaks(facts: Facts, rows: list[int]) -> bool:
    """Whether a stretch holds a turn of the person or an answer of the model."""
    return any(facts.person(i) or ((m := facts.message(i)) is not None and m.origin == "model") for i in rows)


def _same_answer(facts: Facts, i: int, call: int) -> bool:
    """Whether a row belongs to the answer that made a call."""
    here, there = facts.message(i), facts.message(call)
    return here is not None and there is not None and here.group is not None and here.group == there.group


def _is_result(facts: Facts, i: int) -> bool:
    event = facts.message(i)
    return event is not None and any(block.get("type") == "tool_result" for block in event.content)


def _call_of(facts: Facts, i: int) -> int | None:
    event = facts.message(i)
    ids = {block.get("tool_use_id") for block in event.content} if event is not None else set()
    for k in facts.conversation:
        other = facts.message(k)
        if k < i and other is not None and any(b.get("type") == "tool_use" and b.get("id") in ids for b in other.content):
            return k
    return None
