"""The one place that writes markup, and the static forms of the views.

Knows: escaping and tables. Does not know how the data came about. A static form is plain HTML
without script or style, so it reads the same in a saved notebook, an export, or a page that
strips both; it is the same for the same log, so a test can compare it. Ids and times are left out.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Any

from .picture import Picture
from .text import amount, visible
from .timeline import CATEGORIES

FIRST_ROWS, LAST_ROWS = 4, 8
SPARK = "▁▂▃▄▅▆▇█"
STATE_WORDS = {
    "whole": "● whole", "preview": "◐ preview", "placeholder": "▭ placeholder", "folded": "≡ folded", "summary": "Σ summary",
    "attachment": "⊕ attachment", "memory": "✦ memory", "reminder": "¶ reminder", "repair": "+ repair", "later": "· not yet",
    "boundary": "◆ behind a compaction", "branch": "⋔ on another branch", "subagent": "↳ subagent", "record": "– never sent",
}  # fmt: skip
COLOURS = dict(
    zip(
        CATEGORIES,
        ("#8b929b", "#a3aab3", "#bfc5cc", "#b35a9a", "#d98a00", "#b8a100", "#8c6d4f", "#2f80d6", "#4fa7e0", "#7fb8e2",
         "#00916b", "#55b79a"),
        strict=True,
    )
)  # fmt: skip
"""One colour a category that reads on white and on dark; the explorer's style sheet has its own pairs."""


class Markup(str):
    """Text that is markup already."""


def esc(value: object) -> str:
    """Text made safe for an element or an attribute; what is `Markup` passes.

    >>> esc("<b> & \\x1b")
    '&lt;b&gt; &amp; ␛'
    """
    return value if isinstance(value, Markup) else html.escape(visible(str(value)))


def tag(name: str, *children: object, **attributes: str | int | float) -> Markup:
    """An element; children and attribute values are escaped.

    >>> tag("td", "1 < 2", class_="n")
    '<td class="n">1 &lt; 2</td>'
    """
    given = "".join(f' {k.rstrip("_").replace("_", "-")}="{esc(v)}"' for k, v in attributes.items())
    return Markup(f"<{name}{given}>{''.join(map(esc, children))}</{name}>")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table with a head; numbers stand right."""

    def cell(value: object) -> Markup:
        return tag("td", value, style=f"text-align:{'right' if isinstance(value, int) else 'left'}")

    body = Markup("".join(tag("tr", *map(cell, row)) for row in rows))
    return tag(
        "table", tag("thead", tag("tr", *(tag("th", name, style="text-align:left") for name in head))), tag("tbody", body)
    )


def spark(values: Sequence[int], width: int = 72) -> str:
    """Values as a line of blocks, the largest of each group where there are more than `width`.

    >>> spark([1, 4, 8])
    '▁▄█'
    """
    size = -(-len(values) // width) or 1
    groups = [max(values[i : i + size]) for i in range(0, len(values), size)]
    top = max(groups, default=0) or 1
    return "".join(SPARK[min(7, value * 8 // (top + 1))] for value in groups)


def title(picture: Picture) -> str:
    """What the session is, in a few words: format, version, sizes."""
    head, steps = picture.head, len(picture.requests.steps)
    agent = f"{head['format']} {head['version']}".strip()
    records = f"{head['records']} record{'' if head['records'] == 1 else 's'}"
    return f"{agent} session: {records}, {steps} model call{'' if steps == 1 else 's'}"


def explorer(picture: Picture) -> Markup:
    """The static form of the explorer: the counts, the rows as the next request has them, its tokens, the chain."""
    counts = {name: "?" if n is None else n for name, n in picture.counts.items()}
    sizes = picture.timeline.sizes
    parts: list[object] = [tag("p", tag("b", title(picture)))]
    if not picture.history.events:
        return tag("div", *parts, tag("p", "Nothing has happened yet."), data_nova_static="explorer")
    parts.append(
        tag("p", f"on disk {counts['on_disk']} · reachable {counts['reachable']} · in the next request "
            f"{counts['in_request']} · shown {counts['shown']}")
    )  # fmt: skip
    parts.append(_rows(picture))
    size = sizes[-1]
    share = sorted(((n, name) for n, name in zip(size.parts, CATEGORIES, strict=True) if n), reverse=True)
    parts.append(
        tag("p", f"Next request, about {amount(size.total)} tokens: " + ", ".join(f"{c} {amount(n)}" for n, c in share))
    )
    if len(sizes) > 1:
        parts.append(tag("p", "Tokens over the steps: ", tag("code", spark([s.total for s in sizes[:-1]]))))
    parts.append(tag("p", "Chain: " + chain_words(picture)))
    return tag("div", *parts, data_nova_static="explorer")


def chain_words(picture: Picture) -> str:
    """The logical chain in one sentence."""
    rows = {line["kind"]: 0 for line in picture.lines}
    number = dict.fromkeys(rows, 0)
    for line in picture.lines:
        rows[line["kind"]] += sum(n for _, n in line["rows"])
        number[line["kind"]] += 1
    words = [f"{rows.get('path', 0)} records on the active path"]
    names = {"branch": ("branch", "branches"), "island": ("island", "islands"), "sidechain": ("subagent", "subagents")}
    for kind, (one, many) in names.items():
        if kind in rows:
            words.append(f"{number[kind]} {one if number[kind] == 1 else many} of {rows[kind]} records")
    boundaries = sum(1 for mark in picture.marks if mark[1] == "compaction")
    if boundaries:
        words.append(f"{boundaries} compaction{'' if boundaries == 1 else 's'}")
    return ", ".join(words) + "."


def _rows(picture: Picture) -> Markup:
    rows, blocks = picture.history.rows, picture.history.blocks
    main = [i for i, is_main in enumerate(rows["main"]) if is_main]
    cut = len(main) - FIRST_ROWS - LAST_ROWS
    chosen = main if cut <= 0 else main[:FIRST_ROWS] + main[-LAST_ROWS:]
    last = len(picture.requests.steps) + 1
    out: list[Sequence[object]] = []
    for n, row in enumerate(chosen):
        if cut > 0 and n == FIRST_ROWS:
            out.append(["", "", f"… {cut} more rows …", ""])
        heads = blocks["head"][rows["first"][row] : rows["first"][row] + rows["count"][row]]
        state, reason = picture.state(row, last)
        words = STATE_WORDS.get(state, f"○ not sent ({state})")
        text = " · ".join(heads)
        out.append(
            [
                rows["line"][row],
                rows["who"][row],
                text if len(text) < 140 else text[:139] + "…",
                words if not reason or state in ("whole", "later", "record") else f"{words}: {reason}",
            ]
        )
    return table(("line", "who", "what", "how the model sees it next"), out)


def timeline(picture: Picture) -> Markup:
    """The static form of the timeline: a drawing, and the same figures as a table."""
    sizes = picture.timeline.sizes
    if len(sizes) < 2:
        return tag("div", tag("p", "No model call has been made yet."), data_nova_static="timeline")
    data = base64.b64encode(svg(picture).encode()).decode()
    steps = sizes[:-1]
    peak = max(range(len(steps)), key=lambda i: steps[i].total)
    words = f"{len(steps)} model calls; the largest request is step {peak + 1} with {amount(steps[peak].total)} tokens"
    used = [i for i in range(len(CATEGORIES)) if any(s.parts[i] for s in steps)]
    shown = range(max(0, len(steps) - 12), len(steps))
    body = [[i + 1, *(steps[i].parts[c] for c in used), steps[i].total] for i in shown]
    return tag(
        "div",
        tag("img", src=f"data:image/svg+xml;base64,{data}", alt=words, width=900),
        tag("p", words + "."),
        tag("details", tag("summary", f"Tokens of the last {len(body)} steps"), table(["step", *(CATEGORIES[c] for c in used), "total"], body)),
        data_nova_static="timeline",
    )  # fmt: skip


def svg(picture: Picture, width: int = 900, height: int = 220) -> str:
    """The budget over the steps as one SVG document; at most 300 bars, each the largest step of its group."""
    steps = picture.timeline.sizes[:-1]
    group = -(-len(steps) // 300)
    bars = [max(steps[i : i + group], key=lambda s: s.total) for i in range(0, len(steps), group)]
    most = max(s.total for s in steps)
    lines = [(name, picture.head[name]) for name in ("window", "soft", "hard") if picture.head.get(name)]
    top = max([most, *(n for _, n in lines if n < most * 4)]) * 1.06 or 1
    floor, left, right = height - 22, 44, width - 8
    slot = (right - left) / len(bars)

    def y(tokens: float) -> float:
        return round(floor - (floor - 18) * tokens / top, 1)

    out: list[Markup] = []
    for i, bar in enumerate(bars):
        total = 0.0
        for name, tokens in zip(CATEGORIES, bar.parts, strict=True):
            if tokens:
                x, high = round(left + i * slot, 1), y(total + tokens)
                wide = round(max(slot - 0.6, 0.6), 1)
                out.append(tag("rect", x=x, y=high, width=wide, height=round(y(total) - high, 1), fill=COLOURS[name]))
                total += tokens
    label = {"fill": "#808890", "font_size": "10", "font_family": "sans-serif"}
    for name, tokens in lines:
        if tokens <= top:
            dash = {"window": "none", "soft": "2 3", "hard": "6 3"}[name]
            out.append(tag("line", x1=left, x2=right, y1=y(tokens), y2=y(tokens), stroke="#808890", stroke_dasharray=dash))
            out.append(tag("text", f"{name} {amount(tokens)}", x=left + 4, y=y(tokens) - 2, **label))
    for step, kind, _row in picture.marks:
        x = round(left + (min(step, len(steps)) - 0.5) / group * slot, 1)
        out.append(
            tag("text", {"compaction": "◆", "spill": "◫", "failure": "!"}[kind], x=x, y=12, text_anchor="middle", **label)
        )
    out.append(tag("text", amount(most), x=left - 4, y=y(most) + 4, text_anchor="end", **label))
    out.append(tag("text", "0", x=left - 4, y=floor, text_anchor="end", **label))
    out.append(
        tag(
            "text",
            f"steps 1 to {len(steps)}; tokens by category, estimated within the recorded sums",
            x=left,
            y=height - 7,
            **label,
        )
    )
    return tag("svg", *out, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width, height=height)


def frame_data(value: Any) -> Markup:
    """JSON bytes as they may stand inside a script element: no `<` is left, so nothing can end it."""
    return Markup(bytes(value).decode().replace("<", "\\u003c"))
