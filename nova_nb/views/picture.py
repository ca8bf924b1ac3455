"""All a view needs of a session, as plain data that grows: the payload of the explorer and of the page.

Knows: how history, requests, chain and sizes fit into one *frame*. Does not know markup or
widgets. A frame says from which position each table goes on; the first frame goes on from
nothing, so a reader has one rule: cut each table at `base`, then append. What each row is to the
model follows from the frame alone (`Picture.state`; the browser has the same rule).

    frame = {"seq", "base": {table: position}, "head": {…}, "counts": {…},
             "rows": columns, "blocks": columns, "pieces": columns, "patch": {"pair": [[block, block]], "parent": [[row, row]]},
             "epochs": [{"runs": [[piece, count]], "left": [[row, reason]]}], "reasons": [[layer, sentence]],
             "steps": columns, "prompts": [...], "lines": [chain], "marks": [...]}

`left` gives for rows that are not in the request why: each entry holds from its row to the next entry's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ..foreign.nova import settings_of
from ..history.events import SessionStarted
from ..history.log import Log
from .chain import branches, path_of
from .counts import counts
from .history import BLOCK_COLUMNS, ROW_COLUMNS, Columns, History
from .request import PIECE_COLUMNS, Epoch, Requests, StepView
from .text import visible
from .timeline import CATEGORIES, Timeline, marks

if TYPE_CHECKING:
    from ..session import Session

STEP_COLUMNS = ("kind", "epoch", "n", "row", "prompt", "model", "usage", "basis", "total", "recorded", "scale", "parts")
"""`usage` is [input, cache read, cache write, output] or null; `parts` are tokens by category"""

SPOKEN = frozenset({"person", "model", "tool", "summary", "harness", "boundary"})
"""Whose rows can be part of a request; of other rows `left` says nothing unless the projection did."""

GUESSES = (
    ("subagent", "in a subagent's own history"),
    ("branch", "on another branch"),
    ("projection", "on the chain, but not sent; the log gives no reason"),
)
"""What the tree alone says of a row that was not sent, where the projection gives no reason."""


class Picture:
    """A session as data for views. `update(session)` returns the frame that brings a reader up to date.

    >>> picture = Picture()
    >>> frame = picture.update(session)           # doctest: +SKIP
    >>> later = picture.update(grown_session)     # doctest: +SKIP
    """

    def __init__(self) -> None:
        self.history = History()
        self.requests = Requests()
        self.timeline = Timeline()
        self.reasons: list[tuple[str, str]] = []
        self.seq = 0
        self.head: dict[str, Any] = {}
        self.counts: dict[str, int | None] = {}
        self.lines: list[dict[str, Any]] = []
        self.marks: list[list[Any]] = []
        self.left: dict[int, list[list[int]]] = {}
        self._reason_index: dict[tuple[str, str], int] = {}
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session as of the last update."""
        if self._session is None:
            raise RuntimeError("update() comes first")
        return self._session

    def update(self, session: Session, live: bool = False) -> dict[str, Any]:
        """Take in what the session has more than before. Its log may only have grown."""
        self._session = session
        log = session.log
        base = self._sizes()
        start = len(self.history.events)
        for event, line in zip(log.events[start:], log.lines[start:], strict=False):
            self.history.add(event, line)
        adopted = self.history.adopt() if self.history.orphans else []
        paired, self.history.patched = self.history.patched, []
        base["epochs"], base["steps"] = self.requests.update(session, self.history)
        self.timeline.update(self.requests, base["steps"])
        ends: dict[int, int] = {}
        for view in [*self.requests.steps, self._view(len(self.requests.steps) + 1)]:
            ends[view.epoch] = max(view.row, ends.get(view.epoch, 0))
        for epoch in self.requests.epochs[base["epochs"] :]:
            self.left[epoch.number] = self._left(epoch, ends.get(epoch.number, 0))
        conversation = session.format.reachable(log, session.leaf.record)
        self.lines = branches(self.history, session.leaf.record, conversation)
        self.marks = marks(self.history, self.requests)
        self.counts = counts(session, (self.requests.pieces[i] for i in self.order(len(self.requests.steps) + 1)))
        self.head = _head(session, live) | {"unknown": [visible(u) for u in self._view(len(self.requests.steps) + 1).unknown]}
        self.seq += 1
        return self._frame(base, {"pair": paired, "parent": [list(p) for p in adopted]})

    def whole(self) -> dict[str, Any]:
        """The frame from nothing, as of the last update."""
        return self._frame(dict.fromkeys(self._sizes(), 0), {"pair": [], "parent": []})

    def _sizes(self) -> dict[str, int]:
        return {
            "rows": len(self.history.events),
            "blocks": len(self.history.blocks["row"]),
            "pieces": len(self.requests.pieces),
            "epochs": len(self.requests.epochs),
            "reasons": len(self.reasons),
            "steps": len(self.requests.steps),
            "prompts": len(self.requests.prompts),
        }

    def _frame(self, base: dict[str, int], patch: dict[str, Any]) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "base": base,
            "head": self.head,
            "counts": self.counts,
            "rows": _after(self.history.rows, base["rows"]),
            "blocks": _after(self.history.blocks, base["blocks"]),
            "pieces": _after(self.requests.columns, base["pieces"]),
            "patch": patch,
            "epochs": [
                {"runs": _chunks(epoch.order), "left": self.left[epoch.number]}
                for epoch in self.requests.epochs[base["epochs"] :]
            ],
            "reasons": self.reasons[base["reasons"] :],
            "steps": self._steps(base["steps"]),
            "prompts": [
                {"system": p.system, "tools": p.tools} for p in self.requests.prompts[base["prompts"] :]
            ],
            "lines": self.lines,
            "marks": self.marks,
        }  # fmt: skip

    def _steps(self, start: int) -> Columns:
        views = [*self.requests.steps[start:], *([self.requests.next] if self.requests.next else [])]
        out: Columns = {name: [] for name in STEP_COLUMNS}
        for view, size in zip(views, self.timeline.sizes[start:], strict=True):
            u = view.usage
            usage = [u.input, u.cache_read, u.cache_write, u.output] if u else None
            cells = (
                visible(view.kind), view.epoch, view.n, view.row, view.prompt, visible(view.model or ""), usage,
                view.basis, size.total, int(size.recorded), size.scale, size.parts,
            )  # fmt: skip
            for column, cell in zip(out.values(), cells, strict=True):
                column.append(cell)
        return out

    def _left(self, epoch: Epoch, end: int) -> list[list[int]]:
        """Why rows before `end` are not in the requests of an epoch, as runs over the rows."""
        history, columns = self.history, self.requests.columns
        shown = {columns["row"][i] for i in epoch.order} | {r for i in epoch.order for r in columns["also"][i]}
        on = set(path_of(history.rows["parent"], max(shown, default=-1)))
        gate = max((r for r in on if history.rows["who"][r] == "boundary"), default=-1)
        who, flags, given = history.rows["who"], history.rows["flags"], epoch.left
        behind = self._reason("boundary", f"behind the compaction at line {history.rows['line'][gate]}") if gate >= 0 else -1
        guesses = [self._reason(*guess) for guess in GUESSES]
        out: list[list[int]] = []
        for row, event in enumerate(history.events[:end]):
            if row in shown:
                continue
            if event.id in given:
                reason = self._reason(*given[event.id])
            elif who[row] not in SPOKEN:
                continue
            elif "sidechain" in flags[row]:
                reason = guesses[0]
            elif row not in on:
                reason = guesses[1]
            else:
                reason = behind if row < gate else guesses[2]
            if not out or out[-1][1] != reason:
                out.append([row, reason])
        return out

    def _reason(self, layer: str, sentence: str) -> int:
        key = (layer, sentence)
        if key not in self._reason_index:
            self._reason_index[key] = len(self.reasons)
            self.reasons.append((layer, visible(sentence)))
        return self._reason_index[key]

    def order(self, step: int) -> list[int]:
        """Piece numbers of a step's request; one past the steps: the next request."""
        view = self._view(step)
        return self.requests.epochs[view.epoch].order[: view.n]

    def state(self, row: int, step: int) -> tuple[str, str]:
        """How the model sees a row at a step: (a state of pieces, reason), or (layer, sentence) if it does not."""
        columns = self.requests.columns
        for i in self.order(step):
            if columns["row"][i] == row or row in columns["also"][i]:
                return columns["state"][i], columns["reason"][i]
        view = self._view(step)
        if row >= view.row:
            return "later", "not yet written when this request was sent"
        found = ("record", "a record beside the conversation; never sent")
        if (
            self.history.rows["who"][row] not in SPOKEN
            and self.history.events[row].id not in self.requests.epochs[view.epoch].left
        ):
            return found
        for start, reason in self.left[view.epoch]:
            if start > row:
                break
            found = self.reasons[reason]
        return found

    def _view(self, step: int) -> StepView:
        view = self.requests.steps[step - 1] if step <= len(self.requests.steps) else self.requests.next
        assert view is not None
        return view


def _after(columns: Columns, start: int) -> Columns:
    return {name: column[start:] for name, column in columns.items()}


def _chunks(order: Iterable[int]) -> list[list[int]]:
    out: list[list[int]] = []
    for i in order:
        if out and i == out[-1][0] + out[-1][1]:
            out[-1][1] += 1
        else:
            out.append([i, 1])
    return out


def _head(session: Session, live: bool) -> dict[str, Any]:
    log: Log = session.log
    source = log.source
    first = log.events[0] if log.events else None
    name = source.path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    lines: dict[str, int] = {}
    if source.format == "nova" and isinstance(first, SessionStarted):
        s = settings_of(log)
        lines = {"window": s.window_tokens, "soft": s.soft_line, "hard": s.hard_line}
    return {
        "name": visible(source.session_id if name in ("", "log.jsonl") and source.session_id else name),
        "session": visible(source.session_id),
        "format": source.format,
        "version": visible(source.agent_version or ""),
        "records": len(log.events),
        "damage": [[d.line, d.kind, visible(d.message)] for d in log.damage[:50]],
        "leaf": {"line": session.leaf.line, "policy": session.leaf.policy},
        "live": live,
        "categories": CATEGORIES,
        **lines,
    }


def encode(frame: dict[str, Any]) -> bytes:
    """A frame as JSON bytes."""
    return msgspec.json.encode(frame)


__all__ = ["BLOCK_COLUMNS", "PIECE_COLUMNS", "ROW_COLUMNS", "STEP_COLUMNS", "Picture", "encode"]
