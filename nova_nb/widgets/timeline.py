"""The token budget over the steps as a plotly figure, with a static form.

Knows: plotly. Does not know how sizes are found (`nova_nb.views.timeline`). A plain figure is
7 kB and is drawn by JupyterLab itself, also without a kernel; a FigureWidget would send five
megabytes of script. Colours and lines are chosen to read on white and on dark.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from IPython.display import display

from ..history.live import LiveLog
from ..session import Session
from ..views import html
from ..views.picture import Picture
from ..views.text import amount
from ..views.timeline import CATEGORIES
from .base import SETTLE_SECONDS, Growing, Later, Shown

GREY = "#808890"
GRID = "rgba(128,136,144,0.22)"
SIGNS = {
    "compaction": ("diamond", "compaction"),
    "spill": ("square-open", "result written to a file"),
    "failure": ("x", "failure"),
}
MOST_BARS = 1_500
"""Beyond this many steps each bar is the largest step of a group"""


class Timeline(Shown):
    """The budget of a session. In a notebook the last line of a cell shows it; live, it follows the agent.

    `.figure` is the plotly figure, to be changed or saved as any other.
    """

    def __init__(self, session: Session, live: LiveLog | None = None) -> None:
        self._later = Later(self._refresh, SETTLE_SECONDS)
        self._session = session if live is None else Growing(session, live, self._later.ask)
        self._picture = Picture()
        self._picture.update(self._session)

    @property
    def figure(self) -> go.Figure:
        return figure(self._picture)

    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict a step: number, kind, total, recorded, and tokens by category."""
        views = self._picture.requests.steps
        return [
            {
                "step": v.number,
                "kind": v.kind,
                "total": s.total,
                "recorded": s.recorded,
                **dict(zip(CATEGORIES, s.parts, strict=True)),
            }
            for v, s in zip(views, self._picture.timeline.sizes, strict=False)
        ]

    def static_html(self) -> str:
        return html.timeline(self._picture)

    def live_bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"application/vnd.plotly.v1+json": self.figure.to_plotly_json() | {"config": {"displaylogo": False}}}, {}

    def _ipython_display_(self) -> None:
        data, metadata = self._repr_mimebundle_()
        self._handle = display(data, metadata=metadata, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Stop following a live session; the picture stays."""
        if isinstance(self._session, Growing):
            self._session.stop()
        self._later.cancel()

    def _refresh(self) -> None:
        if isinstance(self._session, Growing):
            self._session.catch_up()
        self._picture.update(self._session)
        if self._handle is not None:
            data, metadata = self._repr_mimebundle_()
            self._handle.update(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<Timeline of a {html.title(self._picture)}>"


def figure(picture: Picture) -> go.Figure:
    """Stacked tokens by category over the steps, the lines of the policy, and marks for what happened."""
    sizes, views = picture.timeline.sizes[:-1], picture.requests.steps
    group = -(-len(sizes) // MOST_BARS) or 1
    picked = [max(range(i, min(i + group, len(sizes))), key=lambda k: sizes[k].total) for i in range(0, len(sizes), group)]
    steps = [views[k].number for k in picked]
    notes = [f"step {views[k].number} ({views[k].kind}): {amount(sizes[k].total)} tokens "
             f"{'recorded' if sizes[k].recorded else 'estimated'}" for k in picked]  # fmt: skip
    bars = [
        go.Bar(
            x=steps, y=[sizes[k].parts[c] for k in picked], name=name, marker={"color": html.COLOURS[name], "line": {"width": 0}},
            customdata=notes, hovertemplate=f"%{{customdata}}<br>{name} about %{{y:,}}<extra></extra>",
        )
        for c, name in enumerate(CATEGORIES)
        if any(s.parts[c] for s in sizes)
    ]  # fmt: skip
    most = max((s.total for s in sizes), default=0)
    for kind, (symbol, label) in SIGNS.items():
        at = sorted({min(step, len(sizes)) for step, what, _ in picture.marks if what == kind} - {0})
        if at:
            bars.append(
                go.Scatter(
                    x=at, y=[sizes[s - 1].total + most * 0.05 for s in at], mode="markers", name=label,
                    marker={"symbol": symbol, "size": 9, "color": GREY, "line": {"width": 1.5, "color": GREY}},
                    hovertemplate=f"{label}, step %{{x}}<extra></extra>",
                )
            )  # fmt: skip
    made = go.Figure(bars)
    for name, dash in (("window", "solid"), ("soft", "dot"), ("hard", "dash")):
        tokens = picture.head.get(name)
        if tokens and tokens < most * 4:
            place = "top left" if name != "soft" else "bottom left"
            made.add_hline(
                y=tokens, line={"color": GREY, "width": 1, "dash": dash}, annotation_text=f"{name} {amount(tokens)}",
                annotation_position=place, annotation_font={"size": 10, "color": GREY},
            )  # fmt: skip
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    made.update_layout(
        barmode="stack", bargap=0.08 if len(picked) < 200 else 0, height=300, margin={"l": 56, "r": 16, "t": 24, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": GREY, "size": 12}, hovermode="closest",
        legend={"orientation": "v", "font": {"size": 11}, "traceorder": "reversed"},
        xaxis={**axis, "title": "step (model call)", "range": [0.4, len(sizes) + 0.6]}, yaxis={**axis, "title": "tokens", "rangemode": "tozero"},
        template="none",
    )  # fmt: skip
    return made
