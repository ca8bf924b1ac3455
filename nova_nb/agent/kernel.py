"""The agent kernel: the whole stack of one agent, in one object for a notebook or a script.

Knows: how a log, a projection, a model and the tools are put together, and that one turn runs at a
time. Does not know how any of them works.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec.structs import replace

from .. import ids as clock
from ..errors import UsageError
from ..history import library, runtime
from ..history.events import RuntimeStateCheckpointed, SessionStarted
from ..history.interrupted import found_by_resume
from ..history.live import LiveLog
from ..models.base import Delta, Model
from ..models.resolve import resolve
from ..projection.portable import carry_over
from ..settings import ContextSettings, settings_from
from . import edit
from .agent import Agent
from .answer import Answer
from .compact import make_room
from .loop import turn
from .permissions import Ask, Policy, asker, mode_of
from .prompt import system_blocks
from .run import Run
from .tools import EIGHT, Tool
from .workspace import READ_CHARS, Workspace

if TYPE_CHECKING:
    from ..session import Session

Where = str | os.PathLike[str]
T = TypeVar("T")


class AgentKernel:
    """A live agent in a workspace.

    `model` is "offline" (needs no key), a "claude-…" name, or a `Model` object. `settings` is a preset's name,
    a ContextSettings, or a dict of changes. `permission` says who may run commands: "allow", "deny", a list of patterns
    such as ["python -m pytest *"], or a function; left out, a notebook asks with buttons and a script denies. Sessions
    are kept under `home` (default `$NOVA_HOME`, else `~/.nova`). `ids` makes time and ids reproducible (`nova_nb.ids.Fixed`).

    >>> kernel = AgentKernel("shop", permission="allow")                      # doctest: +SKIP
    >>> await kernel.ask("All timestamps are stored in UTC. Fix test_orders")  # doctest: +SKIP
    """

    def __init__(
        self,
        workspace: Where = ".",
        model: str | Model = "offline",
        *,
        settings: ContextSettings | str | dict[str, Any] | None = None,
        base_url: str | None = None,
        permission: Policy = None,
        home: Where | None = None,
        ids: clock.Source | None = None,
    ) -> None:
        _posix()
        root = _folder(workspace)
        policy = settings_from(settings)
        policy.check()
        source = ids or clock.System()
        answers = _model(model, base_url, policy, source)
        live = library.create(str(root), policy, answers.name, home, source)
        self._assemble(live, root, answers, policy, permission)

    @classmethod
    def resume(
        cls,
        session: Where,
        *,
        workspace: Where | None = None,
        model: str | Model | None = None,
        base_url: str | None = None,
        permission: Policy = None,
        home: Where | None = None,
        ids: clock.Source | None = None,
    ) -> Self:
        """Go on with a session, by id, the beginning of an id, or path. Nothing that ran is run again.

        The model may be another one than before, and the workspace may have moved; the settings stay, since they are
        part of what each past request was. What is not as the log has it (calls that a crash left open, files that
        changed since they were read, another branch or directory) is in `kernel.notices` and with the first answer.
        """
        _posix()
        source = ids or clock.System()
        return cls._over(library.resume(session, home, source), workspace, model, base_url, permission, source)

    @classmethod
    def fork(
        cls,
        session: Where,
        at: str | None = None,
        *,
        workspace: Where | None = None,
        model: str | Model | None = None,
        base_url: str | None = None,
        permission: Policy = None,
        home: Where | None = None,
        ids: clock.Source | None = None,
    ) -> Self:
        """A new session that shares the past of another one up to the message `at` (default: its head).

        The files of the workspace are shared as they are now: a fork goes back in the conversation, not on the disk.
        """
        _posix()
        source = ids or clock.System()
        kernel = cls._over(library.fork(session, at, home, source), workspace, model, base_url, permission, source)
        kernel.agent.state = replace(kernel.agent.state, permissions=())  # they were given for the other session
        return kernel

    @classmethod
    def _over(
        cls,
        live: LiveLog,
        workspace: Where | None,
        model: str | Model | None,
        base_url: str | None,
        permission: Policy,
        source: clock.Source,
    ) -> Self:
        try:
            first = live.events[0]
            assert isinstance(first, SessionStarted)
            root = _folder(first.workspace if workspace is None else workspace)
            policy = settings_from(first.settings)
            answers = _model(first.model if model is None else model, base_url, policy, source)
            kernel = cls.__new__(cls)
            kernel._assemble(live, root, answers, policy, permission)
            kernel._restore()
            return kernel
        except BaseException:
            live.close()
            raise

    def _assemble(self, live: LiveLog, root: Path, model: Model, settings: ContextSettings, permission: Policy) -> None:
        self.live = live
        """the open log: events, head, `subscribe`"""
        self.settings = settings
        self.model = model
        self.notices: tuple[str, ...] = ()
        """what a resume found that the person should know, a sentence each"""
        tools: Mapping[str, Tool] = EIGHT
        sessions = [live.artifacts.directory, *live.artifacts.past] if live.artifacts else []
        self.agent = Agent(
            live=live,
            model=model,
            settings=settings,
            tools=tools,
            workspace=Workspace(root, sessions, min(READ_CHARS, settings.window_tokens)),
            ask=asker(permission, _prompt()),
            system=system_blocks(tools.values(), working_directory=root.name),
            before_request=[make_room],
            state=runtime.RuntimeState(mode=mode_of(permission, _prompt())),
        )
        self._began = len(live.events) == 1
        self._run: Run[Any] | None = None
        self._runner: asyncio.Runner | None = None

    def _restore(self) -> None:
        """The state beside the conversation comes back; what is not as the log has it becomes an event and a notice."""
        mode = self.agent.state.mode
        state, differs = runtime.restore(self.live, self.agent.workspace.root, mode)
        self.agent.checkpointed = state if self.live.last(RuntimeStateCheckpointed) else None
        self.agent.state = replace(state, mode=mode)
        self.notices = (*(note.message for note in found_by_resume(self.live.events)), *map(str, differs))
        self.agent.notices = self.notices
        carry_over(self.live, self.agent.projector, self.model.name)

    # --- working ----------------------------------------------------------------------------

    def start(self, text: str) -> Run[Answer]:
        """Begin a turn in the background and return at once. `await run` waits, `run.interrupt()` stops it."""
        if not text.strip():
            raise UsageError("there is nothing to ask; write what the agent is to do")
        self._idle("start another turn")
        return self._begin(turn(self.agent, text), Answer(ended="interrupted"))

    async def ask(self, text: str) -> Answer:
        """One turn. Interrupting the cell (or cancelling this) interrupts the agent; the log stays whole."""
        return await _finished(self.start(text))

    def ask_sync(self, text: str) -> Answer:
        """One turn from a plain script, without async."""
        if _loop_runs():
            raise UsageError("an event loop is running, as in a notebook: write `await kernel.ask(…)`")
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.ask(text))

    def interrupt(self) -> None:
        """Stop the turn that is running, if there is one."""
        if self._run is not None:
            self._run.interrupt()

    def rewind(self, message: str) -> None:
        """Go on from an earlier message (its id). What came after it stays in the log, as a branch of its own."""
        self._idle("rewind")
        self.live.rewind(message)

    async def compact(self, focus: str = "") -> bool:
        """Summarise what is old now, without waiting for the line. False: nothing changed; the log says why."""
        self._idle("compact")
        return await _finished(self._begin(edit.compact_now(self.agent, focus), False))

    def fold(self, messages: Collection[str], text: str = "") -> str:
        """Put `text` in the place of these messages (their ids) and whatever belongs to them; returns the commit's id.

        Without a text the placeholder is made by rule, without a model: how much it stands for, what the person said, the
        last answers, every symbol. Raises UsageError where that would be no shorter. `summarise` asks the model for a text.
        """
        self._idle("fold")
        return edit.commit(self.agent, "fold", messages, text, "folded by the person")

    async def summarise(self, messages: Collection[str], focus: str = "") -> str | None:
        """Fold these messages (their ids) and whatever belongs to them into a summary that the model writes.

        Returns the commit's id, or None if it was interrupted. Raises ModelError where the model gave no text that may
        stand for them (empty, an error, no shorter): then nothing changed.

        >>> await kernel.summarise(["m4", "m9"], focus="the time zone")   # doctest: +SKIP
        'k1'
        """
        self._idle("summarise")
        return await _finished(self._begin(edit.summarise(self.agent, messages, focus), None))

    def clip(self, messages: Collection[str], reason: str = "clipped by the person") -> str:
        """Leave these messages (their ids) and whatever belongs to them out of the request; returns the commit's id."""
        self._idle("clip")
        return edit.commit(self.agent, "clip", messages, "", reason)

    def undo(self, commit: str) -> None:
        """Take a fold, a clip or a reclaim back, by its id: the request is what it was."""
        self._idle("undo a commit")
        edit.undo(self.agent, commit)

    def watch(self, watcher: Callable[[Delta], object]) -> Callable[[], None]:
        """Call `watcher(delta)` with each part of a reply as it arrives; returns the function that ends it."""
        self.agent.watchers.append(watcher)

        def unwatch() -> None:
            if watcher in self.agent.watchers:
                self.agent.watchers.remove(watcher)

        return unwatch

    def _begin(self, work: Coroutine[Any, Any, T], interrupted: T) -> Run[T]:
        if not _loop_runs():
            work.close()
            raise UsageError("no event loop is running; in a script use kernel.ask_sync(text)")
        self._run = run = Run(work, interrupted)
        return run

    def _idle(self, what: str) -> None:
        if self._run is not None and not self._run.done:
            raise UsageError(f"the agent is at work: await the run, or run.interrupt() and await it, before you {what}")

    # --- looking ----------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session as it stands now, also while the agent works. A later look takes `kernel.session` again.

        A session that began here is in memory, whole. One that was resumed or forked is read from disk, since what is
        loaded of it is only what the next request needs.
        """
        from ..session import of_live, open_session

        directory = self.live.directory
        return of_live(self.live) if self._began or directory is None else open_session(directory)

    def explore(self) -> Any:
        """The three views, linked and live."""
        from ..widgets.explorer import Explorer

        return Explorer(self.session, self.live)

    def timeline(self) -> Any:
        """The token budget over the steps, live."""
        from ..widgets.timeline import Timeline

        return Timeline(self.session, self.live)

    def replay(self, kind: str, n: int = 1) -> Any:
        """Step by step: the n-th "compaction", or the "resume" of this session."""
        session: Any = self.session
        return session.replay(kind, n)

    # --- ending -----------------------------------------------------------------------------

    def close(self) -> None:
        """Release the session; it can be resumed. A turn at work is interrupted first."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        if self._run is not None and not self._run.done:
            self._run.interrupt()
            self._run.when_done(self.live.close)
        else:
            self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "at work" if self._run is not None and not self._run.done else "idle"
        told = "".join(f"\n[resumed: {notice}]" for notice in self.notices)
        return f"<AgentKernel in {self.agent.workspace.root.name} with {self.model.name}, {state}>{told}"


async def _finished(run: Run[T]) -> T:
    """What came of it. If what waits is cancelled, the work is interrupted, in order."""
    try:
        return await run
    except asyncio.CancelledError:
        run.interrupt()
        await run
        raise


def _posix() -> None:
    if sys.platform == "win32":
        raise UsageError(
            "an agent does not run on Windows itself: its log and its commands need POSIX; use WSL (reading sessions works here)"
        )


def _folder(path: Where) -> Path:
    root = Path(path).expanduser()
    if not root.is_dir():
        what = "is a file" if root.exists() else "there is no such folder"
        raise UsageError(f"workspace {str(path)!r}: {what}; make the folder first, or pass workspace= another one")
    return root.resolve()


def _model(model: str | Model, base_url: str | None, settings: ContextSettings, source: clock.Source) -> Model:
    options = {"window_tokens": settings.window_tokens} if model == "offline" else {}
    return resolve(model, base_url, source, **options)


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _prompt() -> Ask | None:
    """Buttons, where someone can press them."""
    if "IPython" not in sys.modules:
        return None
    from ..widgets.permission import ask, in_notebook

    return ask if in_notebook() else None
