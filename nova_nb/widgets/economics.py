"""What compacting before each step would have cost and saved, as a plotly figure with a static form.

Knows: plotly. Does not know the arithmetic (`nova_nb.projection.economics`). All figures are
estimates, in tokens of fresh input; they say nothing of what a summary loses.
"""

from __future__ import annotations

from typing import Any

import msgspec
import plotly.graph_objects as go

from ..projection.economics import Deal, best_threshold, deals
from ..session import Session
from ..settings import ContextSettings
from ..views import html
from .base import Shown
from .timeline import GREY, GRID

MOST_ROWS = 12
"""Rows of the static form."""


class Economics(Shown):
    """The economics of a session under a policy. `.data` has one dict a main step, `.figure` is the plotly figure.

    `.threshold` is the context size at which compacting each time is cheapest, for the growth this session had.
    """

    def __init__(self, session: Session, settings: ContextSettings) -> None:
        steps = [s for s in session.steps if s.kind == "main" and s.usage is not None and s.usage.context]
        self._sizes = [s.usage.context for s in steps if s.usage is not None]
        self._deals = deals(self._sizes, settings)
        self._numbers = [s.number for s in steps]
        rises = [b - a for a, b in zip(self._sizes, self._sizes[1:], strict=False) if b > a]
        growth = sum(rises) / len(rises) if rises else 0.0
        after = self._deals[-1].after if self._deals else 0
        self.threshold = best_threshold(growth, after, settings.summary_max_tokens // 2) if growth else None

    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict a main step with recorded usage: step, context, after, cost, saves_a_step, break_even, gain."""
        return [msgspec.structs.asdict(d) | {"step": n} for n, d in zip(self._numbers, self._deals, strict=True)]

    @property
    def figure(self) -> go.Figure:
        gains = [d.gain for d in self._deals]
        notes = [_note(d) for d in self._deals]
        made = go.Figure(
            [
                go.Bar(
                    x=self._numbers, y=gains, name="gain of compacting here", customdata=notes,
                    marker={"color": ["#2a9d78" if gain > 0 else "#c0703a" for gain in gains], "line": {"width": 0}},
                    hovertemplate="step %{x}<br>%{customdata}<extra></extra>",
                ),
                go.Scatter(
                    x=self._numbers, y=self._sizes, name="context", yaxis="y2", mode="lines", line={"color": GREY, "width": 1.5},
                    hovertemplate="step %{x}: %{y:,} tokens<extra></extra>",
                ),
            ]
        )  # fmt: skip
        axis = {"gridcolor": GRID, "zerolinecolor": GREY, "linecolor": GRID}
        made.update_layout(
            height=300, margin={"l": 64, "r": 64, "t": 24, "b": 40}, template="none", hovermode="closest",
            paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": GREY, "size": 12},
            legend={"orientation": "h", "y": 1.12}, xaxis={**axis, "title": "compact before this step"},
            yaxis={**axis, "title": "tokens of fresh input"},
            yaxis2={"overlaying": "y", "side": "right", "title": "context (tokens)", "showgrid": False, "rangemode": "tozero"},
        )  # fmt: skip
        if self.threshold is not None and self._sizes and self.threshold < max(self._sizes) * 3:
            line = {"color": GREY, "width": 1, "dash": "dot"}
            made.add_hline(
                y=self.threshold, yref="y2", line=line, annotation_text="cheapest threshold",
                annotation_font={"size": 10, "color": "#333"}, annotation_bgcolor="#eee",
            )  # fmt: skip
        return made

    def static_html(self) -> str:
        if not self._deals:
            return str(html.tag("p", "No model call of this session has recorded usage, so nothing can be said about cost."))
        picked = list(zip(self._numbers, self._deals, strict=True))[:: -(-len(self._deals) // MOST_ROWS)]
        head = ("step", "context", "after", "cost", "saves a step", "pays after", "gain")
        parts = [html.tag("p", "Estimates, in tokens of fresh input."), html.table(head, (_cells(n, d) for n, d in picked))]
        if self.threshold is not None:
            parts.append(html.tag("p", f"Cheapest threshold for this growth: about {self.threshold:,} tokens."))
        return "".join(map(str, parts))

    def live_bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"application/vnd.plotly.v1+json": self.figure.to_plotly_json() | {"config": {"displaylogo": False}}}, {}

    def __repr__(self) -> str:
        return f"<Economics of {len(self._deals)} model calls>"


def _cells(number: int, deal: Deal) -> list[str]:
    pays = "never" if deal.break_even == float("inf") else f"{deal.break_even:.1f} steps"
    numbers = [f"{value:,.0f}" for value in (deal.context, deal.after, deal.cost, deal.saves_a_step)]
    return [str(number), *numbers, pays, f"{deal.gain:,.0f}"]


def _note(deal: Deal) -> str:
    pays = "it never pays" if deal.break_even == float("inf") else f"pays after {deal.break_even:.1f} steps"
    return f"{deal.context:,} → {deal.after:,} tokens<br>costs {deal.cost:,.0f}, saves {deal.saves_a_step:,.0f} a step, {pays}<br>gain {deal.gain:,.0f}"
