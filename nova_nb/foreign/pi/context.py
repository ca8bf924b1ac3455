"""What a pi request held: the path from its leaf, cut at the newest compaction, as items.

Knows: the rules of 1.6.0 and 0.73.1 (both measured: docs/formats/pi.md). Does not know a provider's
words (`wire`).

- path = from the leaf by parents. Of the newest compaction on it: its summary, then the entries from
  the first kept one up to it, then what follows. The first kept entry may lie inside a turn.
- answers that ended in an error or were aborted are not sent.
- on the wire only: a call without a result gets "No result provided", marked as an error.
"""

from __future__ import annotations

import json

import msgspec

from ...history.events import Block
from ..calls import Item
from ..common import as_dict, as_list, as_str, text_block
from .entries import BRANCH, Entry, Tree, said, summary_text

NO_RESULT = "No result provided"
RESULT_CHARS = 2_000
"""How much of a result goes into the text that a compaction summarises."""


def items_of(tree: Tree, leaf: str | None) -> tuple[list[Item], dict[str, tuple[str, str]]]:
    """The request's items at a leaf, and why other entries of the path are not in it."""
    path = tree.path(leaf)
    at = next((i for i in range(len(path) - 1, -1, -1) if path[i].kind == "compaction"), None)
    left: dict[str, tuple[str, str]] = {}
    out: list[Item] = []
    if at is not None:
        boundary = path[at]
        first = first_kept(tree, path, boundary)
        kept = path[first:at] if first is not None else []
        gone = path[: first if first is not None else at]
        left = {entry.id: ("boundary", f"behind the compaction at line {boundary.line}") for entry in gone}
        out.append(Item(boundary.id, "user", [text_block(summary_text(boundary))], None, "", "summary", "compaction"))
        path = [*kept, *path[at + 1 :]]
    for entry in path:
        if entry.id not in tree.said:
            tree.said[entry.id] = _item(entry)
        item, why = tree.said[entry.id]
        if item is not None:
            out.append(item)
        elif why:
            left[entry.id] = ("projection", why)
    return paired(out), left


def first_kept(tree: Tree, path: list[Entry], boundary: Entry) -> int | None:
    """Position on the path of the first entry that a compaction keeps; None when it is not on the path."""
    named = tree.named(boundary.data.get("firstKeptEntryId"))
    index = boundary.data.get("firstKeptEntryIndex")
    for i, entry in enumerate(path):
        if entry.id == boundary.id:
            return None
        if entry.id == named or (named is None and isinstance(index, int) and entry.line - 1 == index):
            return i
    return None


def _item(entry: Entry) -> tuple[Item | None, str]:
    """An entry as it is sent, or None and why it is not (empty: it is no conversation)."""
    if entry.kind == "branch_summary":
        text = BRANCH.format(as_str(entry.data.get("summary")))
        return Item(entry.id, "user", [text_block(text)], None, "", "summary", "summary of a branch that was left"), ""
    if entry.kind == "custom_message":
        _, blocks = said({"role": "custom", "content": entry.data.get("content")})
        return Item(entry.id, "user", blocks, None, "", "reminder", "put in by an extension"), ""
    if entry.kind != "message" or entry.role == "system":
        return None, ""
    message = as_dict(entry.data.get("message"))
    if entry.role == "bashExecution" and message.get("excludeFromContext") is True:
        return None, "a command the person ran without showing it to the model"
    if entry.role == "assistant" and message.get("stopReason") in ("error", "aborted"):
        return None, f"the answer ended as {message['stopReason']}: pi does not send it again"
    role, blocks = said(message)
    state, reason, original = "whole", "", None
    details = as_dict(message.get("details"))
    if as_dict(details.get("truncation")).get("truncated") is True:
        state, reason, original = "preview", "cut by the tool", as_str(details.get("fullOutputPath")) or None
    return Item(entry.id, role, blocks, None, "", state, reason, original), ""


def paired(items: list[Item]) -> list[Item]:
    """Results of one batch as one message, and a made-up result for each call that has none."""
    out: list[Item] = []
    calls: list[Block] = []
    answered: set[str] = set()
    batch, source = "", ""

    def close() -> None:
        for call in calls:
            if call["id"] not in answered:
                block = {"type": "tool_result", "tool_use_id": call["id"], "content": NO_RESULT, "is_error": True}
                why = "the call has no result in the log: it was cut off before the batch was written"
                name = f"{source}:{call['id']}:no-result"
                out.append(Item(name, "user", [block], None, batch, "repair", why, None, (source,)))
        calls.clear()
        answered.clear()

    for item in items:
        results = [b for b in item.blocks if b.get("type") == "tool_result"]
        if results:
            answered |= {as_str(b.get("tool_use_id")) for b in results}
            before = out[-1] if out else None
            grouped = before is not None and bool(before.blocks) and before.blocks[-1].get("type") == "tool_result"
            message = (before.message or before.id) if grouped and before is not None else batch or item.id
            out.append(msgspec.structs.replace(item, message=message))
            continue
        close()
        out.append(item)
        batch, source = f"{item.id}:results", item.id
        if item.role == "assistant":
            calls.extend(b for b in item.blocks if b.get("type") == "tool_use")
        else:
            batch = ""
    close()
    return out


def as_conversation(entries: list[Entry], thoughts: bool) -> str:
    """Entries as the text that a compaction asks a summary of; 0.73 put thinking into it, 1.6 does not."""
    parts: list[str] = []
    for entry in entries:
        if entry.kind != "message" or entry.role == "system":
            continue
        message = as_dict(entry.data.get("message"))
        role, blocks = said(message)
        texts = [b["text"] for b in blocks if b.get("type") == "text"]
        if entry.role == "toolResult":
            text = "".join(as_str(as_dict(part).get("text")) for part in as_list(message.get("content")))
            if text:
                more = len(text) - RESULT_CHARS
                shown = f"{text[:RESULT_CHARS]}\n\n[... {more} more characters truncated]" if more > 0 else text
                parts.append(f"[Tool result]: {shown}")
        elif role == "assistant":
            thinking = [b["thinking"] for b in blocks if b.get("type") == "thinking"]
            calls = [b for b in blocks if b.get("type") == "tool_use"]
            if thinking and thoughts:
                parts.append("[Assistant thinking]: " + "\n".join(thinking))
            if texts:
                parts.append("[Assistant]: " + "\n".join(texts))
            if calls:
                parts.append("[Assistant tool calls]: " + "; ".join(map(_call, calls)))
        elif texts:
            parts.append("[User]: " + "".join(texts))
    return "\n\n".join(parts)


def _call(block: Block) -> str:
    values = [f"{key}={json.dumps(value, ensure_ascii=False, separators=(',', ':'))}" for key, value in block["input"].items()]
    return f"{block['name']}({', '.join(values)})"
