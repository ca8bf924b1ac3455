"""What all widgets share: three forms in one bundle, errors under the widget, changes sent together.

Knows: Jupyter's display protocol. Does not know sessions.

A widget is shown as two outputs. The first is its static form (`text/html`, `text/plain`): it is
what a saved notebook, an export without a kernel and nbval see. The second is the live view, which
hides the first while it lives. The static form has no ids or addresses, so it can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anywidget
from IPython.display import DisplayHandle, display

from ..errors import NovaError
from ..foreign import nova
from ..history.events import Event, RequestSent
from ..history.live import LiveLog
from ..history.log import Log
from ..projection.pieces import Projection
from ..projection.projector import Projector
from ..session import Session

FLUSH_SECONDS = 0.12
"""How long changes are gathered before they are sent: a kernel may send about 300 messages a second, all widgets together"""
SETTLE_SECONDS = 1.0
"""How long nothing must change before the static form is written again"""


class Later:
    """Calls `act` once, some time after the first of many `ask()`; at once where no event loop runs."""

    def __init__(self, act: Callable[[], None], seconds: float, restart: bool = False) -> None:
        self.act, self.seconds, self.restart = act, seconds, restart
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        if self._timer is not None:
            if not self.restart:
                return
            self._timer.cancel()
        try:
            self._timer = asyncio.get_running_loop().call_later(self.seconds, self._fire)
        except RuntimeError:
            self.act()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self.act()


class Growing(Session):
    """A live log as a session that views read: as it stands, without touching it.

    It follows the log with a projector of its own, so no step is projected twice. What a resume left
    unread on disk is read here, not into the live log.
    """

    def __init__(self, session: Session, live: LiveLog, changed: Callable[[], None]) -> None:
        log = session.log if live.whole or live.directory is None else nova.read(live.directory)
        super().__init__(log, session.format)
        self._projector = Projector(nova.settings_of(log))
        self._steps: dict[int | None, Projection] = {}
        self._count = 0
        for event in log.events:
            self._follow(event)
        self._fresh: list[Event] = []

        def take(event: Event) -> None:
            self._fresh.append(event)
            changed()

        self.stop = live.subscribe(take)

    def catch_up(self) -> None:
        """Read the events that came since; earlier answers of `steps` and `leaf` no longer hold."""
        fresh, self._fresh = self._fresh, []
        for event in fresh:
            self._follow(event)
        old = self.log
        last = old.lines[-1] if old.lines else 0
        lines = [*old.lines, *range(last + 1, last + 1 + len(fresh))]
        self.log = Log(old.source, [*old.events, *fresh], lines, old.damage)
        self.__dict__.pop("steps", None)
        self.__dict__.pop("leaf", None)

    def projections(self, steps: Iterable[int | None]) -> Iterator[tuple[int | None, Projection]]:
        """Each step's projection, kept since its request was sent and forgotten now; the next request is always at hand."""
        for step in steps:
            at_hand = self._projector.projection() if step is None else self._steps.get(step)
            yield step, at_hand or self.projection(step)
        self._steps.clear()

    def _follow(self, event: Event) -> None:
        if isinstance(event, RequestSent):
            self._count += 1
            self._steps[self._count] = nova.with_appended(self._projector.projection(), event)
        self._projector.add(event)


class Shown:
    """The bundle of a view: `live_bundle()`, `static_html()` and the repr."""

    _handle: DisplayHandle | None = None

    def static_html(self) -> str:
        """The view as plain HTML, the same for the same log."""
        raise NotImplementedError

    def live_bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(data, metadata) of the form that a running front end draws."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self.live_bundle()
        return {**data, "text/html": self.static_html(), "text/plain": repr(self)}, metadata

    def rewrite_static(self) -> None:
        """Bring the static form that was shown up to date, so that the notebook is saved as things stand."""
        if self._handle is not None:
            self._handle.update({"text/html": self.static_html(), "text/plain": repr(self)}, raw=True)  # type: ignore[no-untyped-call]


class Widget(Shown, anywidget.AnyWidget):
    """An anywidget with a static form and whose faults are said under it, never lost in a log."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._message)

    def live_bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = anywidget.AnyWidget._repr_mimebundle_(self)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data, metadata

    def _ipython_display_(self, **_: Any) -> None:
        static = {"text/html": self.static_html(), "text/plain": repr(self)}
        self._handle = display(static, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        data, metadata = self.live_bundle()
        display({**data, "text/plain": ""}, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]

    def answer(self, message: dict[str, Any]) -> None:
        """Do what the view asked for."""
        raise NotImplementedError

    def _message(self, _: object, message: dict[str, Any], __: list[Any]) -> None:
        self.guard(lambda: self.answer(message))

    def guard(self, act: Callable[[], None]) -> None:
        """Run a callback; what goes wrong is shown under the widget."""
        try:
            act()
        except NovaError as error:
            self.send({"type": "error", "text": str(error)})
        except Exception as error:
            self.send(
                {
                    "type": "error",
                    "text": f"{type(error).__name__}: {error}; this is a fault of the view, the session is untouched",
                }
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
