"""The two side jobs of a memory: picking from a listing, and writing down what should outlast the session.

Knows: the shape of a listing (a file name and a description a line) and of a memory (frontmatter
with name, description, type, then the text). Does not touch a memory store.
"""

from __future__ import annotations

import json
import re

from .answers import words
from .rules import binding, sentences
from .sight import Sight

MOST = 5
"""memories picked at most (SPEC R7.4)"""

_SELECT = re.compile(r"(?i)\b(select|pick|choose|which)\b.*\bmemor(y|ies)\b", re.S)
_EXTRACT = re.compile(r"(?i)\b(extract|write|record|save)\b.*\bmemor(y|ies)\b.*\b(type|frontmatter|description)\b", re.S)
_LISTED = re.compile(r"^\s*(?:[-*]\s+)?(?:\[[\w-]+\]\s+)?`?([\w./-]+\.md)`?\s*(?:\([^)]*\))?\s*[:—-]\s*(.+)$", re.M)


def select(sight: Sight) -> str | None:
    """`{"selected": [names]}`: at most five of the listed memories that share words with the question, best first."""
    ask = sight.last_text
    listed = _LISTED.findall(ask + "\n" + "\n".join(p.text for p in sight.passages if p.role == "system"))
    if not listed or not _SELECT.search(ask + " ".join(p.text for p in sight.passages if p.role == "system")):
        return None
    question = set(words(_LISTED.sub("", ask)))
    scored = [
        (len(question & set(words(f"{name.removesuffix('.md').replace('-', ' ').replace('_', ' ')} {about}"))), name)
        for name, about in listed
    ]
    best = sorted(((-score, name) for score, name in scored if score), key=lambda pair: pair)[:MOST]
    return json.dumps({"selected": [name for _, name in best]})


def extract(sight: Sight) -> str | None:
    """Memory blocks for the rules that the person stated; an empty answer when there are none."""
    if not _EXTRACT.search(sight.last_text):
        return None
    found = [
        s for p in sight.passages if p.role == "user" and p.text != sight.last_text for s in sentences(p.text) if binding(s)
    ]
    return "\n\n".join(_block(s) for s in dict.fromkeys(found)) or "none"


def _block(sentence: str) -> str:
    kind = "feedback" if re.search(r"(?i)\b(never|don't|do not|avoid|prefer)\b", sentence) else "project"
    name = "-".join(re.findall(r"[a-z0-9]+", sentence.lower())[:5]) or "memory"
    return f"---\nname: {name}\ndescription: {json.dumps(sentence, ensure_ascii=False)}\ntype: {kind}\n---\n{sentence}"
