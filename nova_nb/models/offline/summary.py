"""Summaries for a compaction: extracted from what is in sight, within the room that is given.

Knows: the headings of SPEC R5.5 and what belongs under each. Invents nothing: every entry is quoted
or counted from the request. When `max_tokens` is small, entries are left out from the end of
the least urgent sections: so a summary can lose things, as real ones do.
"""

from __future__ import annotations

import re

from .rules import binding, rules, sentences
from .sight import Sight, texts_of
from .work import Work

_ASKED = re.compile(
    r"(?i)\b(summar(?:y|ise|ize)|compact)\w*\b.*\b(conversation|session|history|so far|above|work|context|transcript)", re.S
)
HEADINGS = (
    "Goal",
    "Confirmed facts",
    "Decisions",
    "Unfinished work",
    "Files",
    "Constraints",
    "Preferences and prohibitions",
    "symbols",
)
"""In the order of the text. What is short on room loses the later ones' entries first, `symbols` and `Goal` last."""
_KEEP_FIRST = (
    "Goal",
    "Unfinished work",
    "Constraints",
    "Preferences and prohibitions",
    "Decisions",
    "symbols",
    "Files",
    "Confirmed facts",
)
CHARS_PER_TOKEN = 3.5
_SYMBOL = re.compile(
    r"`([^`\n]{2,80})`|\b([\w-]+(?:/[\w.-]+)+|\w+\.(?:py|md|toml|json|ts|js|sql|sh))\b|\b(\w+(?:\.\w+)*_\w+|[A-Z]+_[A-Z_]+|[a-z]+[A-Z]\w+|\w+(?=\())"
)


def answer(sight: Sight) -> str | None:
    """The summary, if the request's last message asks for one."""
    ask = sight.last_text
    if len(ask) < 40 or not _ASKED.search(ask) or not re.search(r"(?i)symbols|goal|decisions", ask):
        return None
    return fit(_sections(sight), int(sight.body.get("max_tokens") or 4_000))


def _sections(sight: Sight) -> dict[str, list[str]]:
    before = Sight({**sight.body, "messages": (sight.body.get("messages") or [])[:-1]}) if _alone(sight) else sight
    people = [p for p in before.passages if p.role == "user"]
    work = Work(before)
    earlier = {h: _entries(p.text, h) for p in before.passages if p.role == "rebuilt" for h in HEADINGS}
    out: dict[str, list[str]] = {h: list(earlier.get(h, [])) for h in HEADINGS}
    asks = [" ".join(s for s in sentences(p.text) if not binding(s)) for p in people]
    asks = [a for a in asks if a]
    if asks:
        out["Goal"] = asks[-1:]
    done = bool(before.messages) and before.messages[-1][0] == "assistant" and not _calls(before.messages[-1][1])
    if asks:
        out["Unfinished work"] = ["nothing is open"] if done else asks[-1:]
    for rule in rules(before):
        if rule.message >= 0:
            heading = (
                "Preferences and prohibitions"
                if re.search(r"(?i)\b(never|not|don't|prefer|avoid)\b|不", rule.text)
                else "Constraints"
            )
            out[heading].append(rule.text)
    for passage in before.passages:
        if passage.role == "assistant":
            out["Decisions"] += [
                s for s in sentences(passage.text) if re.search(r"(?i)\bI (follow|changed|chose|use)\b|becomes", s)
            ]
    for call in before.calls:
        if call.name in ("patch_file", "write_file") and not call.failed:
            out["Files"].append(f"{call.path} (changed)")
        elif call.name == "read_file" and not call.failed:
            out["Files"].append(f"{call.path} (read)")
    if work.runs:
        last = work.runs[-1]
        lines = (last.result or "").strip().splitlines()[-1:]
        out["Confirmed facts"].append(f"`{last.input.get('command')}` last said: {lines[0] if lines else 'nothing'}")
    text = "\n".join(p.text for p in before.passages if p.role not in ("system", "tool"))
    text += "\n".join(str(v) for c in before.calls for v in (c.input.get("path"), c.input.get("new"), c.input.get("old")) if v)
    out["symbols"] += [next(g for g in m if g) for m in _SYMBOL.findall(text)]
    return {h: list(dict.fromkeys(entries)) for h, entries in out.items()}


def fit(sections: dict[str, list[str]], max_tokens: int) -> str:
    """The sections as Markdown, with as many entries as the room takes; what comes first in `_KEEP_FIRST` stays longest."""
    room = int(max_tokens * CHARS_PER_TOKEN) - sum(len(h) + 6 for h in HEADINGS)
    kept: dict[str, list[str]] = {h: [] for h in HEADINGS}
    for heading in _KEEP_FIRST:
        for entry in sections.get(heading, []):
            cost = len(entry) + (2 if heading == "symbols" else 3)
            if cost <= room:
                kept[heading].append(entry)
                room -= cost
    return "\n".join(f"## {h}\n{_body(h, kept[h])}" for h in HEADINGS)


def _body(heading: str, entries: list[str]) -> str:
    if heading == "symbols":
        return ", ".join(entries) or "none"
    return "\n".join(f"- {e}" for e in entries) or "- none"


def _entries(text: str, heading: str) -> list[str]:
    """The entries of one section of a summary."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |^<|\Z)", text, re.M | re.S)
    if not found:
        return []
    parts = re.split(r",\s+", found[1].strip()) if heading == "symbols" else re.findall(r"^- (.+)$", found[1], re.M)
    return [p.strip() for p in parts if p.strip() not in ("", "none", "nothing is open")]


def open_work(text: str) -> str:
    """What a summary says is still to be done."""
    return " ".join(_entries(text, "Unfinished work"))


def _alone(sight: Sight) -> bool:
    """Whether the instruction is a message of its own, apart from tool results and the conversation."""
    return not any(b.get("type") == "tool_result" for b in sight.messages[-1][1]) and bool(texts_of(sight.messages[-1][1]))


def _calls(blocks: list[dict[str, object]]) -> bool:
    return any(b.get("type") == "tool_use" for b in blocks)
