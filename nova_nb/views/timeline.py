"""Tokens by category over the steps: the series behind the strip and the plot.

Knows: characters of pieces, recorded usage, the lines of the policy. Does not know how it is
drawn. Texts are estimated at 3.5 characters a token (SPEC R4.9). Where usage was recorded the
estimate is scaled so that the categories add up to it; what the log does not hold (system prompt
and tools of most agents) is then measured on the first step of its kind, where little else was
sent, and again where a whole request was smaller than that; it is shown as `unlogged`. Both are estimates; only the sum is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..foreign.base import Step
from ..history.events import CompactionBoundaryCreated, Failure, ToolResultExternalized
from .history import History
from .request import Requests, StepView

CHARS_PER_TOKEN = 3.5
CATEGORIES = (
    "system", "tools", "unlogged", "memory", "summary", "attachment", "reminder",
    "person", "model", "thinking", "call", "result",
)  # fmt: skip
"""Where a request's tokens come from, in the order they are stacked."""


class Size(NamedTuple):
    """A step's tokens. `total` is recorded if `recorded`, else estimated. A piece's tokens are its chars / 3.5 * scale."""

    total: int
    recorded: bool
    scale: float
    parts: tuple[int, ...]
    """tokens of each of CATEGORIES; they add up to about `total`"""


class Timeline:
    """Sizes of the steps, brought up to the requests by `update`."""

    def __init__(self) -> None:
        self.sizes: list[Size] = []
        self._rest: dict[str, float] = {}
        self._scale: dict[str, float] = {}

    def update(self, requests: Requests, start: int = 0) -> None:
        """Size the steps from `start` (counted from 0) on, the next request last."""
        del self.sizes[start:]
        todo = [*requests.steps[start:], *([requests.next] if requests.next else [])]
        wanted: dict[int, list[int]] = {}
        for view in todo:
            wanted.setdefault(view.epoch, []).append(view.n)
        sums = {(epoch, n): chars for epoch, ns in wanted.items() for n, chars in _sums(requests, epoch, ns).items()}
        for view in todo:
            self.sizes.append(self._size(requests, view, sums[view.epoch, view.n]))

    def _size(self, requests: Requests, view: StepView, chars: tuple[int, ...]) -> Size:
        prompt = requests.prompts[view.prompt]
        parts = [c / CHARS_PER_TOKEN for c in chars]
        parts[0] = sum(n for _, n in prompt.system or ()) / CHARS_PER_TOKEN
        parts[1] = sum(n for _, n in prompt.tools or ()) / CHARS_PER_TOKEN
        estimate = sum(parts)
        recorded = view.usage.context if view.usage else 0
        kind = "main" if view.kind == "next" else view.kind
        whole = prompt.system is not None and prompt.tools is not None
        if recorded and not whole and recorded <= self._rest.get(kind, float("inf")):
            self._rest[kind] = max(0.0, recorded - estimate)
        rest = 0.0 if whole else self._rest.get(kind, 0.0)
        scale = 1.0
        if recorded:
            if recorded > rest and estimate:
                scale = (recorded - rest) / estimate
            else:
                scale = recorded / (estimate + rest)
                rest *= scale
            self._scale[kind] = scale
        else:
            scale = self._scale.get(kind, 1.0)
        scaled = [p * scale for p in parts]
        scaled[2] = rest
        return Size(recorded or round(sum(scaled)), bool(recorded), round(scale, 4), tuple(map(round, scaled)))


def _sums(requests: Requests, epoch: int, ns: list[int]) -> dict[int, tuple[int, ...]]:
    """Characters by category of the first n pieces, for each n asked."""
    cat, chars = requests.columns["cat"], requests.columns["chars"]
    place = {name: i for i, name in enumerate(CATEGORIES)}
    total = [0] * len(CATEGORIES)
    out: dict[int, tuple[int, ...]] = {}
    at = 0
    order = requests.epochs[epoch].order
    for n in sorted(set(ns)):
        for i in order[at:n]:
            total[place[cat[i]]] += chars[i]
        at = n
        out[n] = tuple(total)
    return out


def marks(history: History, requests: Requests, start: int = 0) -> list[list[Any]]:
    """[step, kind, row] of compactions, spills and failures from row `start` on; the step is the first that follows."""
    kinds: list[tuple[type, str]] = [
        (CompactionBoundaryCreated, "compaction"),
        (ToolResultExternalized, "spill"),
        (Failure, "failure"),
    ]
    out: list[list[Any]] = []
    rows = sorted((view.row, view.number) for view in requests.steps)
    at = 0
    for row, event in enumerate(history.events[start:], start):
        kind = next((name for type_, name in kinds if isinstance(event, type_)), None)
        flags = history.rows["flags"][row].split()
        if kind is None and ("externalized" in flags or "api_error" in flags):
            kind = "spill" if "externalized" in flags else "failure"
        if kind is None:
            continue
        while at < len(rows) and rows[at][0] <= row:
            at += 1
        out.append([rows[at][1] if at < len(rows) else len(requests.steps) + 1, kind, row])
    return out


def step_lines(steps: Iterable[Step]) -> Iterator[str]:
    """One line a model call: number, kind, basis, tokens, line in the log, model."""
    for s in steps:
        size = f"{s.usage.context:>9,} in {s.usage.output:>7,} out" if s.usage else f"{'no usage':>24}"
        yield f"{s.number:5} {s.kind:9} {s.basis:9} {size}  line {s.line}  {s.model or ''}".rstrip()
