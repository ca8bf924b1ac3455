"""Context management on the provider's side: what to ask for, what came back, what another provider gets.

Knows: the words of Anthropic's context editing (beta `context-management-2025-06-27`, read 2026-08): the
client keeps and sends its whole history, the server clears old results before the model reads them,
so the prefix that we send never moves and later thinking stays valid. Whether clearing breaks the
server's own cache is the server's matter; `clear_at_least` makes each clearing worth it. Blocks that
only one provider can read ("compaction") are kept as they came and go back to it verbatim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..history.events import Block
from ..settings import ContextSettings
from .capabilities import Capabilities
from .summary import framed

BETA = "context-management-2025-06-27"
KEEP_TOOL_USES = 3
"""the provider's default of results that it keeps"""


def request_fields(settings: ContextSettings, capabilities: Capabilities) -> dict[str, Any]:
    """What joins a request's body; nothing where the setting or the model does not have it.

    >>> request_fields(ContextSettings(), Capabilities(server_edits=True))
    {}
    """
    if not (settings.server_edits and capabilities.server_edits):
        return {}
    clear = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": settings.reclaim_low_line},
        "keep": {"type": "tool_uses", "value": KEEP_TOOL_USES},
        "clear_at_least": {"type": "input_tokens", "value": settings.reclaim_min_tokens},
        "exclude_tools": list(settings.reclaim_exempt_tools),
    }
    thinking = {"type": "clear_thinking_20251015", "keep": "all"}
    return {"betas": [BETA], "context_management": {"edits": [thinking, clear]}}


def applied(meta: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(sentence, edit) for each edit that an answer reports as applied, and each block that failed its prefix check.

    >>> applied({"context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919",
    ...                                                    "cleared_tool_uses": 8, "cleared_input_tokens": 50000}]}})[0][0]
    'the provider applied clear_tool_uses_20250919: 8 tool uses, 50,000 tokens cleared'
    """
    managed = meta.get("context_management")
    edits = managed.get("applied_edits") if isinstance(managed, Mapping) else None
    out = []
    for edit in edits if isinstance(edits, list) else []:
        if not isinstance(edit, dict):
            continue
        parts = [
            f"{edit[key]:,} {word}"
            for key, word in (
                ("cleared_tool_uses", "tool uses"), ("cleared_thinking_turns", "thinking turns"), ("cleared_input_tokens", "tokens")
            )
            if isinstance(edit.get(key), int)
        ]  # fmt: skip
        out.append((f"the provider applied {edit.get('type', 'an edit')}: {', '.join(parts) or 'no counts'} cleared", edit))
    changed = meta.get("input_transformations")
    for entry in changed if isinstance(changed, list) else []:
        if isinstance(entry, dict):
            where, why = entry.get("path", "somewhere"), entry.get("reason", "no reason given")
            out.append((f"the provider found a block it could not take as it was: {where} ({why})", entry))
    return out


def portable(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages for another provider: a compaction block becomes the summary that it holds, framed as ours, and what it
    stands for leaves, as it does at its own provider; a block that could not be made (no content) leaves alone.
    Thinking and other bound blocks leave with it."""
    start, summary = 0, None
    for i, message in enumerate(messages):
        for block in message["content"]:
            if block.get("type") == "compaction" and isinstance(block.get("content"), str) and block["content"].strip():
                start, summary = i, block["content"]
    out: list[dict[str, Any]] = []
    if summary is not None:
        out.append({"role": "user", "content": [{"type": "text", "text": framed(summary, "")}]})
    for i, message in enumerate(messages[start:], start):
        blocks: list[Block] = list(message["content"])
        if summary is not None and i == start:
            blocks = blocks[max(j for j, b in enumerate(blocks) if b.get("type") == "compaction") + 1 :]
        kept = [b for b in blocks if b.get("type") not in ("compaction", "thinking", "redacted_thinking")]
        if kept:
            out.append({"role": message["role"], "content": kept})
    return out
