"""The session explorer: history, request and chain, linked, with a step slider; live while an agent works.

Knows: how the picture of a session reaches the browser and what a person picks there. Does not
know how anything is drawn (`explorer.js`) nor what it means (`nova_nb.views`). It reads the
session and writes nothing, so the next request has the same bytes with or without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import traitlets

from ..history.events import Event
from ..history.live import LiveLog
from ..session import Session
from ..views import html
from ..views.assets import script, style
from ..views.findings import findings
from ..views.picture import Picture, encode
from .base import FLUSH_SECONDS, SETTLE_SECONDS, Growing, Later, Widget


@dataclass(frozen=True)
class Selected:
    """What a person picked. `step` is None at the next request; `state` says how the model sees the row there."""

    step: int | None
    record: str
    line: int
    state: str
    reason: str = ""
    event: Event | None = field(default=None, repr=False)
    text: str = field(default="", repr=False)


class Explorer(Widget):
    """Three linked views of a session. In a notebook the last line of a cell shows it.

    >>> view = Explorer(session)          # doctest: +SKIP
    >>> view.selected.text                # doctest: +SKIP  in the next cell, after a click
    """

    _esm = script()
    _css = style()
    frame = traitlets.Bytes(b"").tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)

    def __init__(self, session: Session, live: LiveLog | None = None) -> None:
        self._flush = Later(lambda: self.guard(self._send_changes), FLUSH_SECONDS)
        self._settle = Later(self.rewrite_static, SETTLE_SECONDS, restart=True)
        self._session = session if live is None else Growing(session, live, self._flush.ask)
        self._picture = Picture()
        self._picture.update(self._session, live=live is not None)
        super().__init__(frame=encode(self._picture.whole()))

    @property
    def session(self) -> Session:
        """The session as the view last read it."""
        return self._session

    @property
    def selected(self) -> Selected | None:
        """The row that is selected in the browser, or None."""
        row = self.selection.get("row", -1)
        if not 0 <= row < len(self._picture.history.events):
            return None
        step, history = self.selection.get("step"), self._picture.history
        state, reason = self._picture.state(row, step or len(self._picture.requests.steps) + 1)
        event = history.events[row]
        return Selected(step, event.id, history.rows["line"][row], state, reason, event, history.text(row))

    def select(self, record: str, step: int | None = None) -> None:
        """Select a record, as a click would; `step` moves the slider too."""
        row = self._picture.history.index.get(record, -1)
        self.selection = {"row": row, "step": step}
        if step is not None:
            self.send({"type": "step", "step": step})
        self.send({"type": "select", "row": row})

    def static_html(self) -> str:
        return html.explorer(self._picture)

    def close(self) -> None:
        """Stop watching and remove the view."""
        self.stop()
        super().close()

    def stop(self) -> None:
        """Stop watching a live session; the view stays as it is."""
        if isinstance(self._session, Growing):
            self._session.stop()
        self._flush.cancel()
        self._settle.cancel()

    def answer(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "resync" or (kind == "ready" and message.get("seq") != self._picture.seq):
            self._send_frame(self._picture.whole())
        elif kind == "shown" and not isinstance(self._session, Growing):
            self.send({"type": "diagnosis", **findings(self._session, self._picture.history)})
        elif kind == "text":
            row, limit = int(message["row"]), int(message["limit"])
            text = self._picture.history.text(row)
            self.send({"type": "text", "row": row, "text": text[:limit], "more": max(0, len(text) - limit)})
        elif kind == "trace":
            self._trace(str(message["text"]))

    def _send_changes(self) -> None:
        if isinstance(self._session, Growing):
            self._session.catch_up()
        self._send_frame(self._picture.update(self._session, live=True))
        self._settle.ask()

    def _send_frame(self, frame: dict[str, Any]) -> None:
        self.send({"type": "frame"}, buffers=[encode(frame)])

    def _trace(self, text: str) -> None:
        found = self._session.trace(text).model_dump(by_alias=True)
        index = self._picture.history.index
        turns = [{**turn, "row": index.get(turn["record"] or "", -1)} for turn in found["turns"]]
        self.send({"type": "trace", "steps": found["steps"], "turns": turns})

    def __repr__(self) -> str:
        return f"<Explorer of a {html.title(self._picture)}>"
