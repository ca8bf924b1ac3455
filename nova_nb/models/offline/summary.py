"""Summaries for a compaction: extracted from what is in sight, within the room that is given.

Knows: the fields of SPEC R5.5 and what belongs under each. Invents nothing: every entry is quoted
or counted from the request. When the room is small, entries are left out, the least urgent fields
first: so a summary can lose things, as real ones do.
"""

from __future__ import annotations

import re
from typing import Any

from .rules import binding, rules, sentences
from .sight import HARNESS, REBUILT, Sight
from .work import Work

HEADINGS = (
    "Goal",
    "Confirmed facts",
    "Decisions",
    "Unfinished work",
    "Files",
    "Constraints",
    "Preferences and prohibitions",
    "Symbols",
)
_URGENT = (0, 3, 5, 6, 2, 7, 4, 1)
"""Indexes into HEADINGS: what gets room first."""
CHARS_PER_TOKEN = 3.5

_ASKED = re.compile(
    r"(?i)\bsummar(?:y|ise|ize)\b[^\n]{0,200}\b(conversation|session|history|so far|above|work|context|transcript)"
)
_ROOM = re.compile(r"(?i)at most ([\d,]+) tokens")
_FORBIDS = re.compile(r"(?i)\b(never|not|don't|prefer|avoid|no longer)\b|不|禁止")
_DECIDED = re.compile(r"(?i)^I (changed|followed|used|chose)\b|\bbecomes\b|\bis now\b")
_SYMBOL = re.compile(
    r"`([^`\n]{2,80})`"
    r"|((?<![\w/.-])(?:[\w.-]+/)+[\w.-]*\w|\b\w+\.(?:py|md|toml|json|ts|js|sql|sh)\b)"
    r"|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]+)+)\b"
)


def answer(sight: Sight) -> str | None:
    """The summary, if the request ends with an instruction to write one."""
    ask = _instruction(sight)
    if ask is None:
        return None
    rooms = [int(sight.body.get("max_tokens") or 4_000), *(int(n.replace(",", "")) for n in _ROOM.findall(ask))]
    return fit(_sections(_before(sight)), min(rooms))


def _instruction(sight: Sight) -> str | None:
    """The last text block, if it asks for a summary with fields."""
    ask = HARNESS.sub("", sight.last_block)
    return ask if not REBUILT.match(ask) and _ASKED.search(ask) and re.search(r"(?i)\bsymbols\b|\bdecisions\b", ask) else None


def _before(sight: Sight) -> Sight:
    """The request without the instruction at its end."""
    *earlier, last = sight.body["messages"]
    content = last["content"]
    left = content[:-1] if isinstance(content, list) else []
    return Sight({**sight.body, "messages": [*earlier, {**last, "content": left}] if left else earlier})


def _sections(sight: Sight) -> dict[str, list[str]]:
    """All there is to say, by heading."""
    out: dict[str, list[str]] = {h: [] for h in HEADINGS}
    for passage in sight.passages:
        if passage.role == "rebuilt":
            for heading in HEADINGS:
                out[heading] += entries(passage.text, heading)
    asked = [" ".join(s for s in sentences(p.text) if not binding(s)) for p in sight.passages if p.role == "user"]
    asked = [a for a in asked if a]
    if asked:
        out["Goal"], out["Unfinished work"] = asked[-1:], asked[-1:]
    if sight.messages and sight.messages[-1][0] == "assistant" and not any(_is_call(b) for b in sight.messages[-1][1]):
        out["Unfinished work"] = []
    for rule in rules(sight):
        if rule.role in ("user", "assistant"):
            out["Preferences and prohibitions" if _FORBIDS.search(rule.text) else "Constraints"].append(rule.text)
    for passage in sight.passages:
        if passage.role == "assistant":
            out["Decisions"] += [s for s in sentences(passage.text) if _DECIDED.search(s) and "“" not in s]
    seen = {c.path: "read" for c in sight.calls if c.name == "read_file" and not c.failed}
    seen |= {c.path: "changed" for c in sight.calls if c.name in ("patch_file", "write_file") and not c.failed}
    out["Files"] = [e for e in out["Files"] if e.rsplit(" (", 1)[0] not in seen] + [f"{p} ({how})" for p, how in seen.items()]
    for run in Work(sight).runs[-1:]:
        last = (run.result or "nothing").strip().splitlines()[-1]
        out["Confirmed facts"].append(f"`{run.input.get('command')}` last said: {last}")
    out["Symbols"] += symbols(sight)
    return {h: list(dict.fromkeys(found)) for h, found in out.items()}


def symbols(sight: Sight) -> list[str]:
    """Names in what was said and changed, verbatim, in order."""
    texts = [p.text for p in sight.passages if p.role in ("user", "assistant")]
    texts += [str(call.input.get(k, "")) for call in sight.calls for k in ("path", "old", "new")]
    return [next(filter(None, groups)) for text in texts for groups in _SYMBOL.findall(text)]


def fit(found: dict[str, list[str]], max_tokens: int) -> str:
    """The sections as Markdown, with as many entries as the room takes; empty headings are left out.

    >>> fit({"Goal": ["Fix test_orders"], "Files": ["a.py (read)"] * 9}, 12)
    '## Goal\\n- Fix test_orders'
    """
    room = int(max_tokens * CHARS_PER_TOKEN)
    kept: dict[str, list[str]] = {}
    for heading in (HEADINGS[i] for i in _URGENT):
        mark = "" if heading == "Symbols" else "- "
        for entry in found.get(heading, []):
            line = mark + " ".join(entry.split())
            cost = len(line) + 1 + (0 if heading in kept else len(heading) + 4)
            if cost <= room:
                kept.setdefault(heading, []).append(line)
                room -= cost
    return "\n".join(f"## {h}\n" + "\n".join(kept[h]) for h in HEADINGS if h in kept)


def entries(text: str, heading: str) -> list[str]:
    """The entries of one section of a summary, whoever wrote it: list items, or lines under Symbols.

    >>> entries("## Files\\n- a.py (read)\\n## Symbols\\nutc_now\\n\\nrest", "Symbols")
    ['utc_now']
    """
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|^<|^$|\Z)", text, re.M | re.S | re.I)
    if not found:
        return []
    lines = found[1].splitlines() if heading == "Symbols" else re.findall(r"^[-*] (.+)$", found[1], re.M)
    return [line.strip() for line in lines if line.strip() and line.strip().lower() != "none"]


def open_work(text: str) -> str:
    """What a summary says is still to be done."""
    return " ".join(entries(text, "Unfinished work"))


def _is_call(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_use"
