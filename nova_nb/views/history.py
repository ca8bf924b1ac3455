"""The interactive history as columns: one row an event, its blocks in a table beside it.

Knows: events and how a person reads them in one line. Does not know what a model sees of a row
(`request`) nor where the row stands in the tree (`chain`). Columns only ever grow at the end, so
what was added since a position is a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..history.events import (
    Block,
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    Failure,
    ForeignRow,
    MemoryOperation,
    MessageAppended,
    Note,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    ReplyReceived,
    RequestSent,
    RuntimeStateCheckpointed,
    SessionStarted,
    ToolResultExternalized,
    ToolStarted,
    UnknownEvent,
)
from ..projection.pieces import block_chars
from .text import amount, head, visible

Columns = dict[str, list[Any]]

ROW_COLUMNS = ("id", "line", "at", "who", "parent", "first", "count", "main", "flags")
"""id of the event; its line; time; who speaks; row of its parent (-1: none); first block and how many;
1 for the conversation as a person follows it, 0 for the records beside it; words from the record's meta"""

BLOCK_COLUMNS = ("row", "cat", "head", "chars", "pair")
"""row; category; first words; characters; block of the call or result that belongs to it (-1: none)"""

MAX_FLAGS = 4


def text_of(block: Block) -> str:
    """All text of a block, as a person can read it."""
    kind = block.get("type")
    if kind == "tool_use":
        return _call_text(block)
    if kind == "tool_result":
        content = block.get("content")
        parts = content if isinstance(content, list) else [content]
        return "\n".join(text_of(p) if isinstance(p, dict) else "" if p is None else str(p) for p in parts)
    if kind in ("image", "document"):
        return f"[{kind}]"
    for key in ("text", "thinking", "content"):
        if isinstance(block.get(key), str):
            return str(block[key])
    return _json(block)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, TypeError):
        return repr(value)


def _call_text(block: Block) -> str:
    given = block.get("input")
    name = str(block.get("name") or "tool")
    if isinstance(given, dict):
        lines = [f"{k}: {v if isinstance(v, str) else _json(v)}" for k, v in given.items()]
        return name + "\n" + "\n".join(lines)
    return f"{name}\n{given if isinstance(given, str) else _json(given)}"


def category(block: Block, role: str) -> str:
    """Whose tokens a block's are: person, model, thinking, call or result."""
    kind = block.get("type")
    if kind == "tool_use":
        return "call"
    if kind == "tool_result":
        return "result"
    if kind in ("thinking", "redacted_thinking"):
        return "thinking"
    return "model" if role == "assistant" else "person"


def who(event: MessageAppended) -> str:
    """Whose row a message is: person, model, tool or harness."""
    if event.meta.get("summary"):
        return "summary"
    if event.origin in ("model", "tool"):
        return event.origin
    if event.role == "assistant":
        return "model"
    if any(b.get("type") == "tool_result" for b in event.content):
        return "tool"
    return "harness" if event.origin == "nova" or event.meta.get("hidden") or event.role == "system" else "person"


def _boundary(e: CompactionBoundaryCreated) -> str:
    how = {"auto": "automatic", "manual": "by hand"}.get(e.trigger, e.trigger)
    sizes = f" · {amount(e.tokens_before)} tokens" + (f" → {amount(e.tokens_after)}" if e.tokens_after else "")
    return "compacted" + (f", {how}" if how else "") + (sizes if e.tokens_before else "")


# what is said of an event that is no message: type → (who, sentence)
_TOLD: dict[type[Event], tuple[str, Callable[[Any], str]]] = {
    CompactionBoundaryCreated: ("boundary", _boundary),
    SessionStarted: ("session", lambda e: f"session started{' with ' + e.model if e.model else ''}"),
    PromptSet: ("request", lambda e: f"prompt set: {len(e.system)} system blocks, {len(e.tools)} tools"),
    ToolResultExternalized: ("spill", lambda e: f"result written to {e.artifact}: {amount(e.chars)} chars, {e.lines} lines"),
    ProjectionCommitted: (
        "projection",
        lambda e: f"{e.action} of {len(e.targets)} pieces{': ' + e.reason if e.reason else ''}",
    ),
    ProjectionUndone: ("projection", lambda e: f"undone: {e.commit}"),
    RuntimeStateCheckpointed: ("runtime", lambda e: "runtime state: " + ", ".join(map(str, e.state))),
    RequestSent: ("request", lambda e: f"request of step {e.step} ({e.kind}), about {amount(e.tokens)} tokens"),
    ReplyReceived: ("request", lambda e: f"reply, {amount(e.usage.context)} tokens in, {amount(e.usage.output)} out"),
    ToolStarted: ("runtime", lambda e: f"{e.name or 'a tool'} began to run"),
    BranchSelected: ("branch", lambda e: f"the head moved to {e.leaf or 'the start'}{': ' + e.reason if e.reason else ''}"),
    MemoryOperation: ("memory", lambda e: f"memory {e.operation} {e.name}"),
    Failure: ("failure", lambda e: f"{e.part} failed: {e.message}"),
    Note: ("note", lambda e: f"{e.kind}: {e.message}" if e.message else e.kind),
    ForeignRow: ("record", lambda e: e.kind),
    UnknownEvent: ("record", lambda e: f"unknown event {e.kind}"),
}

MAIN = frozenset({"person", "model", "tool", "summary", "harness", "boundary", "failure", "note", "branch"})
"""Whose rows make up the conversation; the rest are records beside it."""


def tell(event: Event) -> tuple[str, str]:
    """Who and what, for an event that is no message.

    >>> tell(Failure(id="f", part="compaction", message="the model returned nothing"))
    ('failure', 'compaction failed: the model returned nothing')
    """
    name, sentence = _TOLD.get(type(event), ("record", lambda e: type(e).__name__))
    return name, sentence(event)


def parent_of(event: Event) -> str | None:
    """The node a record hangs below; for a boundary the leaf it was made on."""
    if isinstance(event, CompactionBoundaryCreated):
        return event.logical_parent
    return getattr(event, "parent", None)


def is_node(event: Event) -> bool:
    """Whether the record is a link of the tree."""
    return isinstance(event, MessageAppended | CompactionBoundaryCreated) or (
        isinstance(event, ForeignRow) and event.parent is not None
    )


class History:
    """Rows and blocks, filled an event at a time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rows: Columns = {name: [] for name in ROW_COLUMNS}
        self.blocks: Columns = {name: [] for name in BLOCK_COLUMNS}
        self.index: dict[str, int] = {}
        self._tools: dict[str, int] = {}
        self.patched: list[list[int]] = []
        """[call, result] for each call whose result came; whoever shows rows takes these and empties the list"""
        self.orphans: list[int] = []
        """rows that name a parent which no earlier row has: it may come later, or never"""

    def add(self, event: Event, line: int) -> None:
        row = len(self.events)
        self.events.append(event)
        self.index[event.id] = row
        first = len(self.blocks["row"])
        if isinstance(event, MessageAppended):
            name, main = who(event), not event.meta.get("sidechain")
            for block in event.content:
                self._block(row, event.role, block)
        else:
            name, sentence = tell(event)
            main = name in MAIN and not (
                isinstance(event, Note) and event.kind == "anchor"
            )  # a reader's aid, no event of the talk
            cells: list[tuple[str, list[Block]]] = [(sentence, [])]
            if isinstance(event, CompactionBoundaryCreated):
                cells += [("", event.content), ("", event.attachment)]
            for text, content in cells:
                if text:
                    self._append(self.blocks, (row, name, head(text), len(text), -1))
                for block in content:
                    self._append(self.blocks, (row, "summary", head(text_of(block)), block_chars(block), -1))
        above = parent_of(event)
        parent = -1 if above is None else self.index.get(above, -2)
        if parent == -2:
            self.orphans.append(row)
        flags = [str(k) for k, v in event.meta.items() if v is True][:MAX_FLAGS] if isinstance(event, MessageAppended) else []
        count = len(self.blocks["row"]) - first
        cells_ = (
            visible(event.id),
            line,
            visible(event.at),
            name,
            parent,
            first,
            count,
            int(main),
            " ".join(map(visible, flags)),
        )
        self._append(self.rows, cells_)

    def _block(self, row: int, role: str, block: Block) -> None:
        number, pair = len(self.blocks["row"]), -1
        cat = category(block, role)
        text = text_of(block)
        if cat in ("call", "result"):
            id = str(block.get("id") if cat == "call" else block.get("tool_use_id"))
            pair = self._tools.get(id, -1)
            if cat == "call":
                self._tools[id] = number
            elif pair >= 0:
                self.blocks["pair"][pair] = number
                self.patched.append([pair, number])
        if block.get("is_error"):
            text = "error: " + text
        self._append(self.blocks, (row, cat, head(text), block_chars(block), pair))

    @staticmethod
    def _append(columns: Columns, cells: tuple[Any, ...]) -> None:
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)

    def adopt(self) -> list[tuple[int, int]]:
        """Parents that came after their child: (row, parent) for each that is known by now."""
        found = [(row, self.index.get(parent_of(self.events[row]) or "", -2)) for row in self.orphans]
        settled = [(row, parent) for row, parent in found if parent >= 0]
        for row, parent in settled:
            self.rows["parent"][row] = parent
        self.orphans = [row for row, parent in found if parent < 0]
        return settled

    def text(self, row: int) -> str:
        """The whole text of a row."""
        event = self.events[row]
        if isinstance(event, MessageAppended):
            parts = [text_of(b) for b in event.content]
        elif isinstance(event, CompactionBoundaryCreated):
            parts = [tell(event)[1], *map(text_of, [*event.content, *event.attachment])]
        elif isinstance(event, ForeignRow):
            parts = [event.kind, _json(event.data)]
        elif isinstance(event, UnknownEvent):
            parts = [event.kind, event.raw.decode("utf-8", "replace")]
        else:
            parts = [tell(event)[1]]
        return visible("\n\n".join(parts))
