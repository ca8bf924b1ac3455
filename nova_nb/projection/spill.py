"""Large tool results leave for a file before they enter history (SPEC 3).

Knows: which results of one message are too large, and the words that stay in their place. Does not
know where files are (it is given a `write` function) nor the log. What it returns enters history
once and never changes afterwards, so the cached prefix holds (R3.4).

Rules and figures are the seeds' [000, 003]: a single result over 50,000 characters; all results of
one message over 200,000, the longest first; never one of 2,000 or fewer; what was read back from a
written file is exempt; a failed write keeps the original and is not tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import PurePosixPath
from typing import Any

from ..history.events import Block, Event, Failure, ToolResultExternalized
from ..ids import Source, System, iso
from ..settings import ContextSettings
from .pieces import block_chars

FOLDER = "tool-results"
"""Directory of a session that holds its written results."""

Write = Callable[[str, str], str]
"""`write(tool_use_id, text)` writes the whole text and returns its path as history shall name it; raises OSError."""


def budget_results(
    results: Iterable[Block],
    settings: ContextSettings,
    write: Write,
    exempt: Set[str] = frozenset(),
    tools: Mapping[str, str] | None = None,
    ids: Source | None = None,
) -> tuple[list[Block], list[Event]]:
    """The results of one message as they enter history, and what happened on the way.

    `exempt` are ids whose results stay whole (see `reads_back`); `tools` gives the tool's name of each
    id, for limits per tool or MCP server. When all that is left is exempt the excess is accepted.

    >>> blocks, events = budget_results([{"type": "tool_result", "tool_use_id": "t1", "content": "x" * 50_001}],
    ...                                 ContextSettings(), lambda id, text: f"tool-results/{id}.txt")
    >>> events[0].artifact, events[0].chars, len(blocks[0]["content"]) < 2_300
    ('tool-results/t1.txt', 50001, True)
    """
    ids = ids or System()
    blocks = list(results)
    names = tools or {}
    exempt = set(exempt)
    events: list[Event] = []

    def spill(i: int, preview: int) -> None:
        id = blocks[i].get("tool_use_id", "")
        text = result_text(blocks[i])
        exempt.add(id)
        try:
            artifact = write(id, text)
        except OSError as error:
            why = f"the result of {id} could not be written ({error.strerror or error}); it stays whole"
            events.append(Failure(id=ids.new_id("f"), at=iso(ids.now()), part="spill", message=why, meta={"tool_use_id": id}))
            return
        blocks[i] = _with_text(blocks[i], placeholder(text, artifact, preview))
        events.append(
            ToolResultExternalized(
                id=ids.new_id("x"),
                at=iso(ids.now()),
                tool_use_id=id,
                artifact=artifact,
                chars=len(text),
                lines=_lines(text),
                content_type=content_type(text),
                sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            )
        )

    for i, block in enumerate(blocks):
        limit = limit_of(names.get(block.get("tool_use_id", ""), ""), settings)
        preview = min(settings.preview_chars, limit)
        if block.get("tool_use_id") not in exempt and _gains(block, limit, preview):
            spill(i, preview)
    sizes = [block_chars(b) for b in blocks]
    for i in sorted(range(len(blocks)), key=lambda i: -sizes[i]):
        if sum(sizes) <= settings.aggregate_limit_chars:
            break
        if blocks[i].get("tool_use_id") not in exempt and _gains(blocks[i], settings.preview_chars, settings.preview_chars):
            spill(i, settings.preview_chars)
            sizes[i] = block_chars(blocks[i])
    return blocks, events


def externalized(events: Iterable[Event]) -> dict[str, str]:
    """`meta["externalized"]` of the message that holds the results: tool_use_id → artifact."""
    return {e.tool_use_id: e.artifact for e in events if isinstance(e, ToolResultExternalized)}


def limit_of(tool: str, settings: ContextSettings) -> int:
    """Characters that one result of a tool may have: its own limit, its MCP server's, or the general one (R3.6).

    >>> limit_of("mcp__jira__search", ContextSettings(tool_limits_chars={"mcp:jira": 9_000}))
    9000
    >>> limit_of("run", ContextSettings(tool_limits_tokens={"run": 1_000}))
    3500
    """
    names = [tool]
    if tool.startswith("mcp__"):
        names.append("mcp:" + tool[5:].split("__", 1)[0])
    for name in names:
        if name in settings.tool_limits_chars:
            return settings.tool_limits_chars[name]
        if name in settings.tool_limits_tokens:
            return int(settings.tool_limits_tokens[name] * settings.chars_per_token)
    return settings.result_limit_chars


def reads_back(arguments: Any, artifacts: Iterable[str] = ()) -> bool:
    """Whether a call's arguments name a written result: its answer is exempt, or the model would never see the whole.

    >>> reads_back({"path": "tool-results/toolu_1.txt", "start": 10}), reads_back({"path": "src/app.py"})
    (True, False)
    """
    known = set(artifacts)
    values = arguments.values() if isinstance(arguments, dict) else ()
    return any(isinstance(v, str) and (v in known or FOLDER in PurePosixPath(v.replace("\\", "/")).parts) for v in values)


def placeholder(text: str, artifact: str, preview_chars: int) -> str:
    """The words that stay in history: path, size, and the first characters. A function of its arguments alone."""
    size = f"{len(text):,} characters, {_lines(text):,} lines, {content_type(text)}"
    shown = text[:preview_chars].replace("</persisted-output>", "<\\/persisted-output>")
    return (
        f"<persisted-output>\nThe output is {size}. It was written whole to {artifact}; "
        f"read it there, in ranges, when the preview is not enough.\n"
        f"First {min(preview_chars, len(text)):,} characters:\n{shown}\n</persisted-output>"
    )


def result_text(block: Block) -> str:
    """All text of a tool result."""
    content = block.get("content")
    if isinstance(content, str):
        return content
    parts = [p.get("text") or "" for p in content or [] if isinstance(p, dict) and p.get("type") == "text"]
    return "\n".join(parts)


def content_type(text: str) -> str:
    """A guess from the first characters: application/json, text/html, text/x-diff or text/plain.

    >>> content_type('{"a": 1}'), content_type("diff --git a/x b/x"), content_type("ok")
    ('application/json', 'text/x-diff', 'text/plain')
    """
    start = text[:200].lstrip().lower()
    if start.startswith(("{", "[")):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return "text/plain"
        return "application/json"
    if start.startswith(("<!doctype html", "<html")):
        return "text/html"
    return "text/x-diff" if start.startswith(("diff --git", "--- a/")) else "text/plain"


def _gains(block: Block, limit: int, preview: int) -> bool:
    """Over the limit, and longer than the preview that would stay."""
    size = len(result_text(block))
    return size > limit and size > preview


def _with_text(block: Block, text: str) -> Block:
    content = block.get("content")
    if isinstance(content, list):
        others = [p for p in content if not (isinstance(p, dict) and p.get("type") == "text")]
        return {**block, "content": [{"type": "text", "text": text}, *others]}
    return {**block, "content": text}


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))
