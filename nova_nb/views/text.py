"""Text for a person: what is invisible or hostile becomes visible, and long text gets a head.

Knows: characters. Does not know markup (`html`) nor where a text comes from. Text from models,
tools and files may hold terminal codes, bidirectional overrides, separators and halves of
surrogate pairs; none of them may change how a page reads or break its encoding.
"""

from __future__ import annotations

import re

HEAD_CHARS = 160
"""Characters of a text that a row shows; the whole is asked for when it is selected."""

_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"


def visible(text: str) -> str:
    """The text with control, direction and separator characters shown as signs, and lone surrogates named.

    >>> visible("a\\x1b[31mb"), visible("x\\u202ey")
    ('a␛[31mb', 'x‹U+202E›y')
    """
    if text.isascii() and text.isprintable():
        return text
    return _ODD.sub(_name, text.replace("\r\n", "\n"))


def head(text: str, limit: int = HEAD_CHARS) -> str:
    """The first words of a text on one line.

    >>> head("two\\n  lines"), head("x" * 9, 4)
    ('two lines', 'xxx…')
    """
    line = visible(" ".join(text[: limit * 3].split()))
    return line if len(line) <= limit and len(text) <= limit * 3 else line[: limit - 1] + "…"


def amount(n: int | float) -> str:
    """A number as a person reads it in a column.

    >>> amount(950), amount(24_830), amount(1_200_000)
    ('950', '24.8k', '1.2M')
    """
    if n < 1_000:
        return str(round(n))
    return f"{n / 1_000:.1f}k" if n < 999_950 else f"{n / 1_000_000:.1f}M"


def size(chars: int) -> str:
    """Characters as a person reads them; near enough bytes for a sense of scale.

    >>> size(68_000)
    '68.0k chars'
    """
    return f"{amount(chars)} chars"
