"""Which rows belong to one model call, and what the provider counted for it.

Knows: where an answer begins and ends in a rollout, which counts are its, and which requests left
no answer. Does not know what a request held (`fold` keeps the history, `Mark` points into it).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...history.events import Usage
from ..base import Step
from ..common import Json, as_dict, as_int, usage_with_cached_inside


@dataclass
class Mark:
    """Where in the history a request stands: the epoch, and how many of its items were there."""

    epoch: int
    count: int
    kind: str = "main"
    remote: bool = False


class Turns:
    """Collects steps. `open` is true between the first item of an answer and its end."""

    def __init__(self, basis: str) -> None:
        self.steps: list[Step] = []
        self.marks: list[Mark] = []
        self.open = False
        self.logged = False
        """the rollout says where turns begin"""
        self._basis = basis
        self._asked = False
        self._calls: set[str] = set()
        self._start = 0
        self._total = -1
        self._pending: Usage | None = None

    def step(self, record: str, line: int, at: str, model: str | None, mark: Mark) -> None:
        """A model call whose answer (or, for one without, whose last input) is `record`."""
        self.steps.append(Step(len(self.steps) + 1, mark.kind, self._pending, self._basis, record, line, at, model))
        self.marks.append(mark)
        self._pending = None
        self.open = mark.kind == "main"
        self._asked = False

    def forget(self) -> None:
        """The steps so far are another session's."""
        self.steps.clear()
        self.marks.clear()

    def call(self, id: str) -> None:
        self._calls.add(id)

    def heard(self, call: str, words: bool) -> None:
        """An input item: the answer before it is over. `words` says that it asks for a new one."""
        self.open = False
        self._calls.discard(call)
        self._asked = self._asked or words

    def unanswered(self) -> bool:
        """At the begin of a turn: whether the words before it were sent and got no answer. Begins the turn."""
        sent = self._asked and not self.open and not self._calls
        self._asked = False
        self._calls.clear()
        return sent

    def turn(self) -> None:
        """A turn begins: counts that come later are no longer those of the steps before."""
        self.logged = True
        self._start = len(self.steps)
        self._pending = None

    def is_summary(self, record: str | None) -> bool:
        """Whether the newest answer is this record; it is then a compaction's."""
        if not self.steps or self.steps[-1].record != record:
            return False
        self.marks[-1].kind = "compact"
        self.steps[-1] = msgspec.structs.replace(self.steps[-1], kind="compact")
        self._pending = None
        self.open = False
        return True

    def counted(self, usage: Json) -> None:
        """A `token_usage_record`: it ends the answer it counts."""
        self._settle(_usage(usage), late=False)

    def token_count(self, info: Json) -> None:
        """A `token_count` event; one whose total has not moved repeats an older one."""
        total = as_int(as_dict(info.get("total_token_usage")).get("input_tokens"))
        if info and total != self._total:
            self._total = total
            self._settle(_usage(as_dict(info.get("last_token_usage"))), late=True)

    def _settle(self, usage: Usage | None, late: bool) -> None:
        if usage is None:
            return
        last = self.steps[-1] if self.steps else None
        if last is not None and (self.open or (late and len(self.steps) > self._start and last.usage is None)):
            self.steps[-1] = msgspec.structs.replace(last, usage=usage)
        elif last is None or last.usage != usage:
            self._pending = usage
        self.open = False


def _usage(raw: Json) -> Usage | None:
    """OpenAI's counts: the input figure holds the cached tokens."""
    if not raw:
        return None
    parts = ("input_tokens", "cached_input_tokens", "output_tokens", "cache_write_input_tokens")
    return usage_with_cached_inside(*(as_int(raw.get(part)) for part in parts))
