"""The face of a session: one object for Nova's own sessions and those of other agents.

Knows: where each question is answered. Holds no state but the log and what was asked before.
Widgets and diagnosis are imported when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from . import __version__
from .errors import UsageError
from .foreign.base import Format, Leaf, SessionInfo, Step
from .foreign.detect import format_named, format_of
from .history.events import CompactionBoundaryCreated, ProjectionCommitted, RequestSent, ToolResultExternalized
from .history.live import LiveLog
from .history.log import Log, Source
from .projection.pieces import Projection, messages_of
from .projection.request import Request
from .settings import ContextSettings, settings_from

if TYPE_CHECKING:
    from .projection.verify import Verification


class Session:
    """A session read from disk. Opening and asking never change it.

    >>> session = open_session(path)              # doctest: +SKIP
    >>> session.request(step=3).messages[0]       # doctest: +SKIP
    """

    def __init__(self, log: Log, format: Format) -> None:
        self.log = log
        self.format = format

    @property
    def path(self) -> str:
        """The file (or directory, or database) it was read from."""
        return self.log.source.path

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """One entry a model call found in the log; see `nova_nb.foreign.base.Step`."""
        return self.format.steps(self.log)

    @cached_property
    def leaf(self) -> Leaf:
        """The record the next step continues from, and the rule that says so."""
        return self.format.leaf(self.log)

    def projection(self, step: int | None = None) -> Projection:
        """The pieces of a step's request; None: what the next request would carry."""
        self._check(step)
        return self.format.project(self.log, step)

    def projections(self, steps: Iterable[int | None]) -> Iterator[tuple[int | None, Projection]]:
        """(step, projection) of several steps, in one pass over the log where the format has one; the next request (None) last."""
        several = getattr(self.format, "projections", None)
        if several is not None:
            yield from several(self.log, steps)
        else:
            yield from ((step, self.format.project(self.log, step)) for step in steps)

    def request(self, step: int | None = None) -> Request:
        """What the model got at `step` (counted from 1), or would get next."""
        projection = self.projection(step)
        entry = self.steps[step - 1] if step is not None else None
        return Request(
            messages=messages_of(projection.pieces),
            system=projection.system,
            tools=projection.tools,
            pieces=projection.pieces,
            step=step,
            kind=entry.kind if entry else "main",
            model=entry.model if entry else None,
            basis=_basis(entry, projection),
            unknown=projection.unknown,
            provider_body=self.format.body(self.log, projection, step),
        )

    def _check(self, step: int | None) -> None:
        if step is not None and not 1 <= step <= len(self.steps):
            have = f"steps 1 to {len(self.steps)}" if self.steps else "no model calls"
            raise UsageError(f"there is no step {step}; this session has {have}")

    def explore(self) -> Any:
        """The three views, linked; in a notebook the last line of a cell shows it."""
        from .widgets.explorer import Explorer

        return Explorer(self)

    def timeline(self) -> Any:
        """The token budget over the steps, as a plotly figure with a static form."""
        from .widgets.timeline import Timeline

        return Timeline(self)

    def economics(self, policy: ContextSettings | str | dict[str, Any] | None = None) -> Any:
        """What compacting before each step would have cost and saved under a policy (default: "seed"), as a figure with
        `.data` and `.threshold`. Estimates, at cache prices."""
        from .widgets.economics import Economics

        return Economics(self, settings_from(policy))

    def what_if(self, policy: Any = None) -> WhatIf:
        """This conversation under another policy, without a model call: settings, a preset, changes to this session's
        settings as a dict, a strategy or its name (`nova_nb.projection.strategies.STRATEGIES`)."""
        return WhatIf(self, policy)

    def replay(self, kind: str, n: int = 1) -> Any:
        """The n-th "compaction" of this session, or its "resume", as frames: `.frames[i].title .text .data`."""
        if kind == "compaction":
            return self._replay_compaction(n)
        if kind == "resume":
            from .history.replay import resume

            return resume(self.log, [p.reason for p in self.projection().pieces if p.state == "repair"])
        raise UsageError(f"there is no replay of {kind!r}; choose 'resume' or 'compaction'")

    def _replay_compaction(self, n: int) -> Any:
        from .foreign import nova
        from .projection import frames

        boundaries = [e for e in self.log.events if isinstance(e, CompactionBoundaryCreated)]
        if not 1 <= n <= len(boundaries):
            raise UsageError(f"there is no compaction {n}; this session has {len(boundaries) or 'none'}")
        boundary = boundaries[n - 1]
        position = self.log.index
        at = position[boundary.id]
        placed = [(s, position[s.record]) for s in self.steps if s.record in position]
        usage = [s.usage for s, i in placed if s.kind == "compact" and i < at]
        if self.format.name == "nova":
            sides = nova.around(self.log, boundary.id)
        else:
            before = [s.number for s, i in placed if s.kind == "main" and i < at][-1:]
            after = [s.number for s, i in placed if s.kind == "main" and i > at][:1]
            wanted: list[int | None] = [*before, *after, *([] if after else [None])]
            seen = dict(self.projections(wanted))
            sides = seen[before[0]] if before else Projection(()), seen[after[0] if after else None]
        return frames.compaction(n, boundary, *sides, ContextSettings(), usage[-1] if usage else None)

    def trace(self, text: str, regex: bool = False) -> Any:
        """The fate of a text, step by step; see DIAGNOSIS: `.steps`, `.turns`, `.first`, `.at(step)`."""
        from .diagnosis.fate import trace

        return trace(self, text, regex=regex)

    @cached_property
    def facts(self) -> Any:
        """What the diagnosis looks at, gathered once: see `nova_nb.diagnosis.facts.Facts`."""
        from .diagnosis.facts import gather

        return gather(self)

    def sets(self, step: int | None = None) -> Any:
        """On disk, reachable, in the request (of a step, or the next one), shown: `.sentence`, `.counts`, and
        `.left_out[record]`, the chain of reasons why a record is not in it; see `nova_nb.diagnosis.sets`."""
        from .diagnosis.sets import four_sets

        self._check(step)
        return four_sets(self, step)

    def why_forgot(self, text: str, regex: bool = False) -> Any:
        """Why a text is not in the latest request, by the two check-lists, or that it is; see `nova_nb.diagnosis.amnesia`."""
        from .diagnosis.amnesia import why_forgot

        return why_forgot(self, text, regex=regex)

    def verify(self) -> Verification:
        """Every recorded request derived again from the log and compared; `.ok`, `.checks`, and a text that says it.

        Nova's own sessions record what was sent, and Claude Code's newest; for others this raises UsageError.
        """
        from .foreign import nova
        from .projection.verify import verify

        derive = getattr(self.format, "verify", None)
        if derive is not None:
            verification: Verification = derive(self.log)
            return verification
        if self.format.name != "nova":
            raise UsageError(f"{self.path}: a {self.format.name} session records no hash of its requests to compare with")
        found = verify(self.log.events, nova.settings_of(self.log), self.log.line)
        return msgspec.structs.replace(found, damage=tuple(d.message for d in self.log.damage))

    def survival(self) -> Any:
        """What came through each compaction, by kind of fact, and thanks to what; see `nova_nb.diagnosis.survival`."""
        from .diagnosis.survival import survival

        return survival(self)

    def diagnose(self) -> Any:
        """What is wrong with this session and which layer caused it; see `nova_nb.diagnosis`."""
        from .diagnosis.report import diagnose

        return diagnose(self)

    def __repr__(self) -> str:
        s = self.log.source
        return f"<Session {s.session_id or Path(s.path).name} {s.format} {len(self.log.events)} events>"


class WhatIf(Session):
    """A session under another policy: `.steps`, `.request(step)`, `.timeline()`, `.trace(text)` and all else a session has.

    Its steps are the main model calls of the branch that `base` would continue. The model's words are the recorded ones.

    >>> session.what_if("masking").compare()[0]          # doctest: +SKIP
    {'step': 1, 'sent_step': 1, 'tokens': 2143, 'sent_tokens': 2143, 'new_bytes': 7420, 'prefix_share': 0.0, …}
    """

    def __init__(self, base: Session, policy: Any = None) -> None:
        from .foreign import nova
        from .history.events import PromptSet
        from .projection.rerun import conversation, rerun
        from .projection.strategies import strategy_for

        self.base = base
        own = nova.settings_of(base.log) if base.log.source.format == "nova" else ContextSettings()
        self.strategy, self.settings = strategy_for(policy, own)
        rows = [e for id in base.format.reachable(base.log) if (e := base.log.get(id)) is not None]
        last = base.projection(None)
        known = last.system is not None or last.tools is not None
        prompt = PromptSet(id="what-if-prompt", system=last.system or [], tools=last.tools or []) if known else None
        events = rerun(conversation(rows), self.strategy, self.settings, prompt, base.log.source.session_id or "what-if")
        source = msgspec.structs.replace(base.log.source, format="nova")
        super().__init__(Log(source, events, [base.log.line(e.id) or 0 for e in events]), nova)

    def compare(self) -> list[dict[str, Any]]:
        """One row a step, beside what was sent. Tokens are estimates; `sent_tokens` is the recorded usage where there is
        one. `new_bytes` are canonical bytes after the prefix that the request before it had in common; `cost` is the
        input in tokens of fresh input, with all of the prefix read from the cache (0.1) and the rest written (1.25)."""
        from .projection.usage import RATIOS

        recorded = {s.record: s for s in self.base.steps}
        acts: list[str] = []
        out = []
        for event in self.log.events:
            if isinstance(event, RequestSent):
                sent = recorded.get(event.meta.get("for"))
                share = event.prefix_bytes / event.total_bytes if event.total_bytes else 0.0
                out.append(
                    {
                        "step": event.step,
                        "sent_step": sent.number if sent else None,
                        "tokens": event.tokens,
                        "sent_tokens": sent.usage.context if sent and sent.usage else None,
                        "new_bytes": event.total_bytes - event.prefix_bytes,
                        "prefix_share": share,
                        "cost": round(event.tokens * (RATIOS.cache_read * share + RATIOS.cache_write * (1 - share))),
                        "over_window": event.tokens > self.settings.window_tokens,
                        "acts": acts,
                    }
                )
                acts = []
            elif isinstance(event, CompactionBoundaryCreated | ProjectionCommitted | ToolResultExternalized):
                acts.append(getattr(event, "trigger", "") or getattr(event, "action", "") or "spill")
        return out

    def __repr__(self) -> str:
        return f"<WhatIf {self.strategy.name} over {self.base!r}>"


def _basis(entry: Step | None, projection: Projection) -> str:
    """How a request is known. A recorded one of which something turns out to be missing is partial after all."""
    known = "rebuilt" if entry is None else entry.basis
    return "partial" if projection.unknown and (entry is None or known == "recorded") else known


def open_session(path: str | os.PathLike[str], session_id: str | None = None) -> Session:
    """Open Nova's own or any known agent's session; never writes to it.

    Raises NotASession when the path holds none, with what it is instead.
    """
    module = format_of(path)
    return Session(module.read(Path(path), session_id), module)


def of_live(live: LiveLog) -> Session:
    """The session of a log that was begun in this process, as it stands now: nothing is read or written.

    Its events are its lines, one each, which holds for no log that was resumed or forked.
    """
    path = live.directory / "log.jsonl" if live.directory else ""
    source = Source(str(path), "nova", __version__, live.session_id)
    events = list(live.events)
    return Session(Log(source, events, list(range(1, len(events) + 1))), format_named("nova"))


def list_sessions(path: str | os.PathLike[str]) -> list[SessionInfo]:
    """The sessions that a file, folder or database holds."""
    return format_of(path).list_sessions(Path(path))
