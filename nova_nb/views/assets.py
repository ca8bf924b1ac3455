"""The explorer's script and style, read from beside the widget and joined into one module.

Knows: where the files are and how to join ES modules that import only from each other: their
import lines go, and names stay, so they must be unique. There is no build step; each file is a
module that a browser takes as it is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "widgets"
MODULES = ("frame.js", "list.js", "strip.js", "panes.js", "explorer.js", "notebook.js")
"""In an order in which each needs only those before it."""

_IMPORT = re.compile(r'^import [^\n]* from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@cache
def script() -> str:
    """One ES module; its default export is the widget, and `mount(element, channel)` draws on a page."""
    parts = (_EXPORT.sub("", _IMPORT.sub("", (FOLDER / name).read_text("utf-8"))) for name in MODULES)
    return "\n".join(parts)


@cache
def style() -> str:
    """The style sheet."""
    return (FOLDER / "explorer.css").read_text("utf-8")
