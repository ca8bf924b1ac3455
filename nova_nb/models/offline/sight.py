"""What the offline model can see: a request's body, taken apart.

Knows: the Messages API's words and the parameters of the eight tools (SPEC R10.1). Does not decide
anything. A `Sight` is a pure function of the body; there is nothing else to know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

HARNESS = re.compile(
    r"<(compaction-summary|recovery|system-reminder|reminder|memory|memories|context|attachment)\b[^>]*>.*?</\1>", re.S
)
"""Text that the harness put into a person's message."""

REBUILT = re.compile(
    r"(?i)\s*(<[\w-]*summary\b|#+ *(conversation |session )?summary\b|(this|the) (session|conversation) "
    r"(is being continued|was compacted|continues)|\[?(compacted|summary of))"
)
"""Start of a message that stands for earlier history."""

_OPEN = re.compile(r"(?im)^#+ (goal|unfinished work)$")
SPILLED = re.compile(r"<persisted-output\b.*?(?:</persisted-output>|\Z)", re.S)
_PATH = re.compile(r"(/?[\w.@+~-]+(?:/[\w.@+~-]+)*/tool-results/[\w.@+~-]+|tool-results/[\w.@+~-]+)")
_NUMBERED = re.compile(r"^ *(\d+)(?:\t|→|: | ?\| ?)", re.M)


@dataclass(frozen=True)
class Passage:
    """A text in the request. `where` names the place for a person, `role` is system, user, assistant, rebuilt or tool."""

    text: str
    where: str
    role: str
    message: int


@dataclass(frozen=True)
class Call:
    """A tool call with its result, as far as the request shows it."""

    name: str
    input: dict[str, Any]
    result: str | None
    failed: bool
    message: int

    @property
    def path(self) -> str:
        return str(self.input.get("path", "")).removeprefix("./")

    @property
    def spilled(self) -> str | None:
        """Path of the file that holds the whole result, when the request holds a preview."""
        block = SPILLED.search(self.result or "")
        found = _PATH.search(block[0]) if block else None
        return found[0] if found else None


def plain(text: str) -> str:
    """File text as it is on disk: line numbers that a read tool put before each line are taken away."""
    lines = text.splitlines()
    body = [line for line in lines if line.strip()]
    if body and sum(bool(_NUMBERED.match(line)) for line in body) >= 0.9 * len(body):
        return "".join(_NUMBERED.sub("", line, count=1) + "\n" for line in lines if _NUMBERED.match(line))
    return text if text.endswith("\n") or not text else text + "\n"


def texts_of(content: Any) -> str:
    """The text of a message's or a result's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(b.get("text") or "") for b in blocks if isinstance(b, dict) and b.get("type") == "text")


@dataclass(frozen=True)
class Sight:
    """A request as its reader sees it."""

    body: dict[str, Any]

    @cached_property
    def messages(self) -> list[tuple[str, list[dict[str, Any]]]]:
        out = []
        for message in self.body.get("messages") or []:
            content = message.get("content") or []
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            out.append((str(message.get("role")), [b for b in blocks if isinstance(b, dict)]))
        return out

    @cached_property
    def tools(self) -> frozenset[str]:
        """Names of the tools that may be called."""
        return frozenset(str(t["name"]) for t in self.body.get("tools") or [] if isinstance(t, dict) and "name" in t)

    @cached_property
    def passages(self) -> list[Passage]:
        """Every text, in order: system first, results with the call that made them."""
        return list(self._passages())

    def _passages(self) -> Iterator[Passage]:
        system = self.body.get("system")
        if system:
            for block in [system] if isinstance(system, str) else system:
                yield Passage(texts_of([block]) if isinstance(block, dict) else str(block), "the system prompt", "system", -1)
        names = {b.get("id"): b for _, blocks in self.messages for b in blocks if b.get("type") == "tool_use"}
        for i, (role, blocks) in enumerate(self.messages):
            for block in blocks:
                if block.get("type") == "text":
                    yield from _split(str(block.get("text") or ""), role, i)
                elif block.get("type") == "tool_result":
                    call = names.get(block.get("tool_use_id")) or {}
                    given = _object(call.get("input"))
                    what = given.get("path") or given.get("command") or given.get("pattern") or ""
                    where = f"the result of {call.get('name', 'a call')} {what}".rstrip()
                    yield Passage(texts_of(block.get("content")), where, "tool", i)

    @cached_property
    def calls(self) -> list[Call]:
        """All calls that the request shows, in order."""
        results = {b.get("tool_use_id"): b for _, blocks in self.messages for b in blocks if b.get("type") == "tool_result"}
        out = []
        for i, (_, blocks) in enumerate(self.messages):
            for block in blocks:
                if block.get("type") == "tool_use":
                    result = results.get(block.get("id"))
                    text = None if result is None else texts_of(result.get("content"))
                    failed = bool(result and result.get("is_error"))
                    out.append(Call(str(block.get("name")), _object(block.get("input")), text, failed, i))
        return out

    @cached_property
    def asked(self) -> Passage:
        """What the person wants now: the last message in their own words, else the summary that stands for it."""
        own = [p for p in self.passages if p.role == "user"]
        summaries = [p for p in self.passages if p.role == "rebuilt" and _OPEN.search(p.text)]
        return (own or summaries or [Passage("", "nowhere", "user", -1)])[-1]

    @cached_property
    def last_text(self) -> str:
        """The text at the very end of the request, whoever put it there."""
        if not self.messages or self.messages[-1][0] != "user":
            return ""
        return "\n".join(str(b.get("text") or "") for b in self.messages[-1][1] if b.get("type") == "text")

    @cached_property
    def conduct(self) -> str:
        """The part of the system prompt that is the same for every project: its first block, where there are more (R9.1)."""
        system = self.body.get("system")
        return texts_of(system[:1]) if isinstance(system, list) and len(system) > 1 else ""

    @cached_property
    def last_block(self) -> str:
        """The last block of the request, if it is text of the user role."""
        if not self.messages or self.messages[-1][0] != "user" or not self.messages[-1][1]:
            return ""
        return texts_of(self.messages[-1][1][-1:])

    @cached_property
    def turn(self) -> list[Call]:
        """The calls made since the person asked."""
        return [call for call in self.calls if call.message > self.asked.message]

    def file(self, path: str) -> str | None:
        """The text of a file as the request shows it: the last whole read with the changes made since; None if unseen."""
        text: str | None = None
        for call in self.calls:
            if call.path != path or call.result is None:
                continue
            if call.name == "read_file" and not call.failed and whole(call):
                text = plain(call.result)
            elif call.name == "write_file" and not call.failed:
                text = str(call.input.get("content", ""))
            elif call.name == "patch_file":
                old, new = str(call.input.get("old", "")), str(call.input.get("new", ""))
                stale = call.failed or text is None or not old or old not in text
                text = None if stale else (text or "").replace(old, new, 1)
        return text


def whole(call: Call) -> bool:
    """Whether a read shows the whole file: no range asked for, nothing stored elsewhere, not reclaimed."""
    text = call.result or ""
    if any(call.input.get(word) for word in ("offset", "limit", "column")) or "<persisted-output" in text:
        return False
    return not re.search(r"^[\[<(][^\n]{0,300}[\])>]\s*\Z", text, re.M)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _split(text: str, role: str, i: int) -> Iterator[Passage]:
    """A message's text parted into what the harness put in and the rest."""
    if role != "user":
        if text.strip():
            yield Passage(text, f"message {i + 1} by the model", "assistant", i)
        return
    for found in HARNESS.finditer(text):
        inside = re.sub(r"</?[\w-]+[^>]*>", "", found[0]).strip()
        summary, kind = found[1] == "compaction-summary", found[1].replace("compaction-", "a ")
        # What stands before the first heading of a summary is the frame, not what the summary says.
        yield Passage(inside[max(0, inside.find("## ")) :] if summary else inside, f"message {i + 1}, {kind}", "rebuilt", i)
    own = HARNESS.sub("", text).strip()
    if not own:
        return
    if REBUILT.match(own):
        yield Passage(own, f"message {i + 1}, a summary", "rebuilt", i)
    else:
        yield Passage(own, f"message {i + 1} by the person", "user", i)
