"""Formats whose log holds the messages themselves: what they share.

A reader of such a format fills `Log.native` with a `Calls`: the steps, and one function that gives
the view of any step. The functions of the `Format` protocol below read only that, so a format
module is its `sniff`, its `list_sessions` and its `read`, and takes the rest from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..history.events import Block, Event, MessageAppended, PromptSet, Usage
from ..history.log import Damage, Log, Source
from ..projection.pieces import Piece, Projection, block_chars
from .base import Leaf, SessionInfo, Step
from .common import Names

Wire = dict[str, Any]
"""One message (or item) in the provider's own words."""


class Item(msgspec.Struct, frozen=True):
    """One record inside a request: its neutral blocks, and the provider's own message where there is one."""

    id: str
    role: str
    blocks: list[Block]
    wire: Wire | None = None
    message: str = ""
    """items with one name are one neutral message; empty: the item's own id"""
    state: str = "whole"
    reason: str = ""
    original: str | None = None
    sources: tuple[str, ...] = ()


class View(msgspec.Struct, frozen=True):
    """What one step's request holds."""

    items: Sequence[Item]
    system: list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    unknown: tuple[str, ...] = ()
    left: dict[str, tuple[str, str]] = {}
    body: dict[str, Any] | Callable[[], dict[str, Any]] | None = None
    """the provider's words (or what makes them when they are asked for), or None where neutral messages are those words"""
    unsure: frozenset[str] = frozenset()
    """see `Projection.unsure`"""


@dataclass(frozen=True, eq=False)
class Calls:
    """What a reader knows of a session beyond its events; `view(None)` is the next request."""

    steps: tuple[Step, ...]
    view: Callable[[int | None], View]
    leaf: Leaf
    reachable: Callable[[str | None], list[str]]
    shown: list[str] | None = None


def conversation(log: Log) -> list[str]:
    """Ids of conversation records, in file order; those of a subagent's own trajectory are not this conversation's."""
    return [e.id for e in log.events if isinstance(e, MessageAppended) and e.role != "system" and "sidechain" not in e.meta]


def leaf(log: Log) -> Leaf:
    calls: Calls = log.native
    return calls.leaf


def reachable(log: Log, leaf: str | None = None) -> list[str]:
    calls: Calls = log.native
    return calls.reachable(leaf)


def shown(log: Log) -> list[str] | None:
    calls: Calls = log.native
    return calls.shown


def steps(log: Log) -> tuple[Step, ...]:
    calls: Calls = log.native
    return calls.steps


def project(log: Log, step: int | None = None) -> Projection:
    calls: Calls = log.native
    view = calls.view(step)
    return Projection(pieces_of(view.items), view.system, view.tools, view.unknown, view.left, view.unsure)


def body(log: Log, projection: Projection, step: int | None = None) -> dict[str, Any] | None:
    calls: Calls = log.native
    made = calls.view(step).body
    return made() if callable(made) else made


def pieces_of(items: Iterable[Item]) -> list[Piece]:
    """Every block of every item as a piece."""
    return [
        Piece(
            f"{item.id}:{i}",
            item.message or item.id,
            item.role,
            block,
            item.sources or (item.id,),
            item.state,
            item.reason,
            block_chars(block),
            item.original,
        )
        for item in items
        for i, block in enumerate(item.blocks)
    ]


def batched(items: Sequence[Item]) -> list[Item]:
    """Items with the results of one batch of calls as one neutral message.

    Chat providers take one message a result; neutral messages hold a batch in one user message.
    """
    out: list[Item] = []
    for item in items:
        only_results = bool(item.blocks) and all(b.get("type") == "tool_result" for b in item.blocks)
        before = out[-1] if out else None
        if (
            only_results
            and before is not None
            and before.role == item.role
            and before.blocks
            and before.blocks[-1].get("type") == "tool_result"
        ):
            item = msgspec.structs.replace(item, message=before.message or before.id)
        out.append(item)
    return out


def item_of(event: MessageAppended, wire: Wire | None = None) -> Item:
    """A conversation record as it stands."""
    return Item(event.id, event.role, event.content, wire)


@dataclass
class Builder:
    """Collects events while a file is read: unique ids, parents in file order, lines, damage."""

    events: list[Event] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    last: str | None = None

    def unique(self, id: str, line: int) -> str:
        """`id`, marked with its line when it was met before."""
        return self.names.take(id, line)

    def add(self, event: Event, line: int) -> None:
        self.events.append(event)
        self.lines.append(line)

    def message(
        self,
        id: str,
        line: int,
        role: str,
        blocks: list[Block],
        *,
        parent: str | bool | None = True,
        at: str = "",
        group: str | None = None,
        model: str | None = None,
        usage: Usage | None = None,
        meta: dict[str, Any] | None = None,
    ) -> MessageAppended:
        """A conversation record below `parent` (True: below the one before)."""
        above = self.last if isinstance(parent, bool) else parent
        event = message_event(
            self.unique(id, line), role, blocks, above, at=at, group=group, model=model, usage=usage, meta=meta
        )
        self.add(event, line)
        self.last = event.id
        return event

    def prompt(self, line: int, system: list[Block], tools: list[dict[str, Any]] | None = None) -> PromptSet:
        event = PromptSet(id=self.unique("prompt", line), system=system, tools=tools or [])
        self.add(event, line)
        return event

    def log(self, path: Path, format: str, native: Calls, size: int, version: str | None = None, session: str = "") -> Log:
        return Log(Source(str(path), format, version, session, size), self.events, self.lines, self.damage, native)


def message_event(
    id: str,
    role: str,
    blocks: list[Block],
    parent: str | None,
    *,
    at: str = "",
    group: str | None = None,
    model: str | None = None,
    usage: Usage | None = None,
    meta: dict[str, Any] | None = None,
) -> MessageAppended:
    """A conversation record; whose words it holds is read off its form."""
    return MessageAppended(
        id=id,
        at=at,
        parent=parent,
        role=role,
        content=blocks,
        origin=origin_of(role, blocks),
        group=group,
        model=model,
        usage=usage,
        meta=meta or {},
    )


def origin_of(role: str, blocks: list[Block]) -> str:
    """Whose words a message holds, as far as its form says."""
    if role == "assistant":
        return "model"
    if role == "system":
        return "nova"
    return "tool" if any(b.get("type") == "tool_result" for b in blocks) else "person"


def one_session(path: Path, format: str, session: str = "", title: str = "", parent: str | None = None) -> list[SessionInfo]:
    """The listing of a plain file."""
    stat = path.stat()
    return [SessionInfo(str(path), format, session, title, stat.st_mtime, stat.st_size, parent)]


class Prefix(msgspec.Struct, frozen=True):
    """A call whose request is the first `count` items of a list."""

    count: int
    step: Step


def linear(
    items: Sequence[Item],
    prefixes: Sequence[Prefix],
    *,
    tools: list[dict[str, Any]] | None = None,
    unknown: tuple[str, ...] = (),
    left: dict[str, tuple[str, str]] | None = None,
    policy: str = "last-in-file",
) -> Calls:
    """Calls of a log that is one list of messages: each call saw the list as it was then.

    Items of role "system" at the head are the system prompt.
    """
    head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    system = [block for item in items[:head] for block in item.blocks] if head else None
    all_items = batched(items)
    ids = [item.id for item in items if item.role != "system"]

    def view(step: int | None) -> View:
        count = len(all_items) if step is None else prefixes[step - 1].count
        wire = [item.wire for item in all_items[:count] if item.wire is not None]
        body = {"messages": wire} if len(wire) == count else None
        return View(all_items[head:count], system, tools, unknown, left or {}, body)

    def on_branch(leaf: str | None) -> list[str]:
        return ids if leaf not in ids else ids[: ids.index(leaf) + 1]

    return Calls(tuple(p.step for p in prefixes), view, Leaf(ids[-1] if ids else None, None, policy), on_branch, ids)
