"""A diagnosis to attach to a bug report: Markdown or HTML, with what is private taken out.

Knows: what to take out (paths, names in them, e-mail addresses, key-like strings) and the two
shapes. Key-like strings are found by `detect-secrets`, a library kept for that, and the page is set by `markdown-it-py`; nothing is sent
anywhere. What is taken out is replaced by a word in angle brackets, the same word for the same text,
so that a reader can still follow it.
"""

from __future__ import annotations

import re

from .fate import Trace
from .report import Diagnosis, inert

_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_PATH = re.compile(r"(?:[A-Za-z]:[\\/]|~?/)(?:[\w.@+ -]+[\\/])*[\w.@+-]+")
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\)([\w.-]+)")


class Redactor:
    """Replaces private text; the same text gets the same word.

    >>> hide = Redactor()
    >>> hide("mail ada@example.com about /home/ada/shop/cart.py")
    'mail <mail 1> about <path 1>/cart.py'
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._names: set[str] = set()

    def __call__(self, text: str) -> str:
        self._names |= {name for name in _HOME.findall(text) if len(name) > 2}
        for secret in _secrets(text):
            text = text.replace(secret, self._word("key", secret))
        text = _MAIL.sub(lambda m: self._word("mail", m[0]), text)
        text = _PATH.sub(self._path, text)
        for name in sorted(self._names, key=len, reverse=True):
            text = re.sub(rf"\b{re.escape(name)}\b", self._word("name", name), text)
        return text

    def _path(self, match: re.Match[str]) -> str:
        """A path keeps its last part, which says what kind of file it was."""
        folder, slash, last = match[0].replace("\\", "/").rpartition("/")
        return f"{self._word('path', folder or '/')}{slash}{last}"

    def _word(self, kind: str, text: str) -> str:
        if (kind, text) not in self._known:
            number = 1 + sum(known == kind for known, _ in self._known)
            self._known[kind, text] = f"<{kind} {number}>"
        return self._known[kind, text]


_TOKEN = "[A-Za-z0-9_+/=.-]*"
_BY_ENTROPY = ("Base64HighEntropyString", "HexHighEntropyString")
"""Plugins that judge by entropy alone would take ids and hashes, which a reader of the report needs."""


def _secrets(text: str) -> list[str]:
    """Key-like strings, whole, longest first."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import transient_settings

    known: dict[str, type] = get_mapping_from_secret_type_to_class()
    plugins = {plugin.__name__ for plugin in known.values()} - {*_BY_ENTROPY}
    found: set[str] = set(re.findall(r"\bsk-[A-Za-z0-9_-]{16,}", text))
    with transient_settings({"plugins_used": [{"name": name} for name in sorted(plugins)]}):
        for line in text.splitlines():
            for secret in scan_line(line):
                if secret.secret_value:
                    whole = re.search(_TOKEN + re.escape(secret.secret_value) + _TOKEN, line)
                    found.add(whole[0] if whole else secret.secret_value)
    return sorted((secret for secret in found if len(secret) >= 8), key=len, reverse=True)


def markdown(report: Diagnosis, trace: Trace | None = None, redact: bool = True) -> str:
    """The diagnosis as Markdown; private text taken out unless `redact` is False."""
    hide = Redactor() if redact else str
    c = report.counts
    lines = [
        f"# Session diagnosis: {report.verdict}",
        "",
        f"- session: {inert(hide(report.session.path))}",
        f"- agent: {report.session.format} {inert(hide(report.session.agent_version or ''))}".rstrip(),
        f"- on disk {c.on_disk} · reachable {_n(c.reachable)} · in the next request {_n(c.in_request)} · shown {_n(c.shown)}",
        f"- leaf: line {report.leaf.line}, rule {report.leaf.policy}",
        "",
    ]
    for f in report.findings:
        where = ", ".join(map(str, f.lines)) or "-"
        lines += [f"## {f.role}: {f.layer} (line {where})", "", inert(hide(f.message)), "", f"*{f.certainty}*, code `{f.code}`"]
        lines += ["", f"Remedy: {inert(hide(f.remedy))}"] if f.remedy else []
        lines.append("")
    if not report.findings:
        lines += ["Nothing found.", ""]
    if trace is not None:
        lines += [f"## Fate of “{inert(hide(trace.text))}”", "", "| step | from | to | layer | what |", "|---|---|---|---|---|"]
        lines += [f"| {t.step} | {t.from_} | {t.to} | {t.layer} | {inert(hide(t.message))} |" for t in trace.turns]
        lines.append("")
    note = "Paths, names, e-mail addresses and key-like strings were taken out; look it through before you post it."
    return "\n".join([*lines, note if redact else "Nothing was taken out of this report.", ""])


_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}"
    "td,th{padding:.2em .6em;text-align:left;vertical-align:top;border-bottom:1px solid #8886}table{border-collapse:collapse}"
)


def html(report: Diagnosis, trace: Trace | None = None, redact: bool = True) -> str:
    """The same as one plain page with no script, in the colours of the reader's system."""
    from markdown_it import MarkdownIt

    setter = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])
    body = setter.render(markdown(report, trace, redact))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>Session diagnosis</title><style>{_STYLE}</style>\n{body}</html>\n"
    )


def _n(value: int | None) -> str:
    return "unknown" if value is None else str(value)
