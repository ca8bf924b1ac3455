"""A turn at work in the background, so that cells return, buttons work and views move meanwhile.

Knows: one asyncio task. Does not know what it does. An interrupt is asked for with `interrupt`; the
turn then ends in order, and its answer says "interrupted".
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Run(Generic[T]):
    """`await run` gives the answer, or raises what stopped the agent. `interrupted` is the answer of work that was
    interrupted before its first line ran."""

    def __init__(self, work: Coroutine[Any, Any, T], interrupted: T) -> None:
        self._interrupted = interrupted
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._report)
        self._awaited = False

    @property
    def done(self) -> bool:
        return self._task.done()

    @property
    def answer(self) -> T | None:
        """The answer, once there is one."""
        return None if not self.done or self._task.cancelled() or self._task.exception() else self._task.result()

    def interrupt(self) -> None:
        """Stop: the reply is dropped, a running command and its children are ended, and the log says so."""
        if not self.done:
            self._task.cancel()

    async def wait(self) -> T:
        """The answer. If what waits is cancelled, the agent works on."""
        self._awaited = True
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._task.cancelled():
                return self._interrupted
            raise

    def when_done(self, then: Callable[[], object]) -> None:
        """Call `then` when the turn has ended."""
        self._task.add_done_callback(lambda _task: then())

    def __await__(self) -> Generator[Any, None, T]:
        return self.wait().__await__()

    def _report(self, task: asyncio.Task[T]) -> None:
        """Nobody may be waiting for a background turn: then its error is said here, in one line."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._awaited:
            print(f"the agent stopped: {error}", file=sys.stderr)

    def __repr__(self) -> str:
        if not self.done:
            return "<Run: the agent is at work; `await` it, or .interrupt()>"
        if self._task.cancelled():
            return "<Run: cancelled before it began>"
        error = self._task.exception()
        return f"<Run: stopped by {type(error).__name__}: {error}>" if error else repr(self._task.result())
