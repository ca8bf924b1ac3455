"""A session as one HTML file that works from disk, with no network and no kernel.

Knows: how the explorer's script, style and data go into one document. The page's own policy
forbids every request and every script but the one written here. Long texts are cut, and the page
says by how much.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import msgspec

from . import html
from .assets import script, style
from .findings import findings
from .picture import Picture, encode
from .text import HEAD_CHARS

if TYPE_CHECKING:
    from ..session import Session

TEXT_CHARS = 20_000
"""Characters of one row's text that the page holds"""
ALL_CHARS = 24_000_000
"""Characters of all rows' texts together; a session beyond that shows first words only from there on"""

START = """
const data = (id) => JSON.parse(document.getElementById(id).textContent);
const root = document.getElementById("nova");
if (matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("nova-dark");
root.replaceChildren();
const explorer = mount(root, { kernel: false, frame: data("nova-frame"), texts: data("nova-texts"), listen: () => () => {}, send() {}, select() {} });
explorer.showDiagnosis(data("nova-findings"));
"""

PAGE_STYLE = """
body { margin: 0; padding: 14px; background: #fff; color: #1b1f24; font: 13px/1.4 system-ui, sans-serif; }
body.nova-dark { background: #0d1117; color: #e3e7ec; --jp-layout-color1: #0f141a; --jp-layout-color2: #171d25;
  --jp-border-color2: #2b323b; --jp-content-font-color1: #e3e7ec; --jp-content-font-color2: #98a2ad; color-scheme: dark; }
.nova { max-width: 1500px; margin: 0 auto; }
.nova-panes { height: max(356px, calc(100vh - 330px)); }
.nova:has(.nova-detail:not(.nova-hidden)) .nova-panes { height: max(300px, calc(100vh - 540px)); }
"""


def page(session: Session) -> str:
    """The whole page. The same session gives the same page.

    >>> open("session.html", "w").write(page(session))     # doctest: +SKIP
    """
    picture = Picture()
    picture.update(session)
    code = script() + START
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    name = html.title(picture)
    head = html.tag(
        "head",
        html.Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        html.Markup(f'<meta http-equiv="Content-Security-Policy" content="{html.esc(policy)}">'),
        html.tag("title", f"{picture.head['name']} · {name}"),
        html.tag("style", html.Markup(style() + PAGE_STYLE)),
    )
    held = {
        "nova-frame": encode(picture.whole()),
        "nova-texts": msgspec.json.encode(_texts(picture)),
        "nova-findings": msgspec.json.encode(findings(session, picture.history)),
    }
    body = html.tag(
        "body",
        html.tag("main", html.explorer(picture), id="nova"),
        *(html.tag("script", html.frame_data(value), type="application/json", id=id) for id, value in held.items()),
        html.tag("script", html.Markup(code), type="module"),
    )
    return "<!doctype html>\n" + html.tag("html", head, body, lang="en")


def _texts(picture: Picture) -> dict[str, str]:
    """Texts of rows that their first words do not show whole."""
    out: dict[str, str] = {}
    room = ALL_CHARS
    rows, blocks = picture.history.rows, picture.history.blocks
    for row in range(len(picture.history.events)):
        first, count = rows["first"][row], rows["count"][row]
        short = count == 1 and blocks["chars"][first] < HEAD_CHARS and blocks["head"][first].count(" ") == 0
        if short or room <= 0:
            continue
        text = picture.history.text(row)
        if len(text) > TEXT_CHARS:
            more = len(text) - TEXT_CHARS
            text = f"{text[:TEXT_CHARS]}\n… {more:,} more characters: line {rows['line'][row]} of {picture.head['name']}"
        room -= len(text)
        out[str(row)] = text
    return out
