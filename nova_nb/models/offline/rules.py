"""Sentences that bind: finding them in what can be seen, and what they settle.

Knows: how a rule sounds, and the table of topics in `scenarios/habits.toml` with the habit of each.
Does not know what is done with a choice.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .sight import Passage, Sight

HABITS = Path(__file__).parents[1] / "scenarios" / "habits.toml"

_BINDS = re.compile(
    r"(?i)\b(always|never|must|only|prefer|convention|rule|decided|agreed|rename[ds]?|instead of|rather than|avoid|"
    r"do not|don't|no longer|from now on|not \w+|we use|use \w+|stored? in|"
    r"(?:is|are|be) (?:stored|written|kept|saved|called|in))\b"
    r"|统一|必须|不要|禁止|不用|约定|存储|改成|改名"
)
_NEGATED = re.compile(
    r"(?i)(\b(?:not|never|no|don't|avoid|without|instead of|rather than|(?:switch|move|moved|change|changed) from)\b|不用|不要|禁止)[\w\s`'\"]{0,24}$"
)
_RENAME = re.compile(
    r"(?i)\brenamed?\s+`?([A-Za-z_][\w.]*)`?\s+(?:to|into|as)\s+`?([A-Za-z_][\w.]*)`?"
    r"|`?([A-Za-z_][\w.]*)`?\s+(?:is now called|is now|became|改成了?|→|->)\s*`?([A-Za-z_][\w.]*)`?"
)
_FORBIDS = re.compile(
    r"(?i)\b(?:never|don't|do not|must not)\b[\w\s]{0,12}?\b(touch|change|edit|modify|write|run)\b\s+(?:to\s+|in\s+|the\s+)*`?([\w./@+-]*\w)`?"
)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"“'])|(?<=[。！？])|\n+")


@dataclass(frozen=True)
class Rule:
    """A binding sentence and where it stands."""

    text: str
    where: str
    message: int
    role: str = "user"


@dataclass(frozen=True)
class Choice:
    """What holds for a topic. `rule` is None when it is the habit; then `because` is the habit's reason."""

    value: str
    rule: Rule | None
    because: str


def sentences(text: str) -> list[str]:
    """The sentences and list entries of a text, without list marks.

    >>> sentences("Store it in UTC. Why?\\n- use pnpm, not npm")
    ['Store it in UTC.', 'Why?', 'use pnpm, not npm']
    """
    parts = (re.sub(r"^\s*(?:[-*•>]|\d+[.)])\s+", "", part).strip() for part in _END.split(text))
    return [part for part in parts if part]


def binding(sentence: str) -> bool:
    """Whether a sentence sounds like a rule; a question does not.

    >>> binding("Never use CURRENT_TIMESTAMP."), binding("Did we agree on UTC?")
    (True, False)
    """
    return not sentence.endswith(("?", "？")) and len(sentence) < 400 and bool(_BINDS.search(sentence))


def rules(sight: Sight) -> list[Rule]:
    """All visible rules, by place, the last one being the strongest; what the model itself says comes before all others."""
    ranked = sorted(sight.passages, key=lambda p: p.role != "assistant")
    return [Rule(s, p.where, p.message, p.role) for p in ranked for s in _said(p) if binding(s)]


def _said(passage: Passage) -> list[str]:
    """The sentences of a passage that can bind. Of the model's own, what it quotes; else what it does not say of itself.
    Of tool output, only prose that was read from a file of the project."""
    if passage.role == "tool":
        return sentences(passage.text) if re.search(r"(?i)read_file \S*\.(md|txt|rst)$", passage.where) else []
    if passage.role in ("user", "system"):
        return sentences(passage.text)
    out = []
    for sentence in sentences(passage.text):
        quotes = re.findall(r"“([^“”]+)”", sentence)
        if not re.search(r"\bI\b|^Understood", sentence) and (passage.role == "rebuilt" or not quotes):
            out.append(sentence)
        else:
            out += quotes
    return out


@cache
def topics() -> dict[str, dict[str, Any]]:
    """The table of habits, by topic."""
    return {t["name"]: t for t in tomllib.loads(HABITS.read_text("utf-8"))["topic"]}


def settles(sentence: str, topic: str) -> str | None:
    """Which option of a topic a sentence names, if any.

    >>> settles("Use pnpm, not npm.", "package manager"), settles("Never CURRENT_TIMESTAMP.", "timestamps")
    ('pnpm', 'utc')
    """
    options = topics()[topic]["option"]
    against = set()
    for option in options:
        for found in re.finditer(option["words"], sentence, re.I):
            if not _NEGATED.search(sentence[: found.start()]):
                return str(option["name"])
            against.add(option["name"])
    left = [str(o["name"]) for o in options if o["name"] not in against]
    return left[0] if against and left else None


def choose(sight: Sight, topic: str) -> Choice:
    """What holds for a topic: the last visible rule about it, else the habit."""
    table = topics()[topic]
    for rule in reversed(rules(sight)):
        value = settles(rule.text, topic)
        if value is not None:
            return Choice(value, rule, rule.text)
    return Choice(str(table["habit"]), None, str(table["because"]))


def renames(sight: Sight) -> Iterator[tuple[str, str, Rule]]:
    """Visible renames as (old, new, rule), in order."""
    for rule in rules(sight):
        for a, b, c, d in _RENAME.findall(rule.text):
            yield (a or c).rstrip("."), (b or d).rstrip("."), rule


def forbidding(sight: Sight, run: bool, target: str) -> Rule | None:
    """The rule that forbids to change a path (or, with `run`, to run a command), if one is in sight."""
    for rule in rules(sight):
        for verb, what in _FORBIDS.findall(rule.text):
            if (verb.lower() == "run") == run and re.search(rf"(?<![\w.-]){re.escape(what)}(?![\w-])", target):
                return rule
    return None
