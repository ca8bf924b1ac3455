"""From Codex's history to the bytes of a request: what is added and changed on the wire only.

Knows: the words Codex adds itself, and which items it changes as it sends them. Does not know the
log (`fold` replays it and hands the history over).
"""

from __future__ import annotations

import re

import msgspec

from ..calls import Item
from ..common import Json, as_dict, as_list, as_str
from ..words import text_block, tool_result

METADATA = "internal_chat_message_metadata_passthrough"
NOT_SENT = frozenset(["ghost_snapshot"])
CONTEXT = (
    "# AGENTS.md instructions", "<user_instructions>", "<environment_context>", "<permissions instructions>", "<INSTRUCTIONS>",
    "<skills_instructions>", "<collaboration_mode>", "<personality", "<turn_aborted>", "<subagent_notification>", "<skill>",
    "<user_shell_command>", "<apps_instructions>", "<model_switch>",
)  # fmt: skip
"""How texts begin that Codex itself puts into user messages: they are no turn of the person."""

SUMMARY_START = "Another language model started to solve this problem and produced a summary of its thinking process."
SUMMARY_PROMPT = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task."
    "\n\nInclude:\n- Current progress and key decisions made\n- Important context, constraints, or user preferences\n"
    "- What remains to be done (clear next steps)\n- Any critical data, examples, or references needed to continue\n\n"
    "Be concise, structured, and focused on helping the next LLM seamlessly continue the work.\n"
)
"""The words that end a local compaction request: in no log, taken from captured requests (Codex is Apache-2.0)."""

CUT = re.compile(r"…\d+ (?:tokens|chars) truncated…|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]")
KEPT_TOKENS = 20_000
"""0.98 keeps the person's messages up to this size (bytes / 4) through a local compaction, the newest first."""

BASE_IN_INPUT = (0, 171)
"""From this version on (or earlier, after 0.98) the base instructions are the first input item, not `instructions`."""


def is_context(item: Json) -> bool:
    """Whether a user message was put in by Codex rather than typed."""
    parts = as_list(item.get("content"))
    return bool(parts) and all(as_str(as_dict(part).get("text")).lstrip().startswith(CONTEXT) for part in parts)


def plain(item: Json) -> str:
    """All text of a message item."""
    return "".join(as_str(as_dict(part).get("text")) for part in as_list(item.get("content")))


def on_the_wire(wire: Json, openai: bool) -> Json:
    """An item as it goes out: metadata of the turn only to OpenAI itself, and not all of it."""
    if METADATA not in wire:
        return wire
    rest = {k: v for k, v in wire.items() if k != METADATA}
    if not openai:
        return rest
    return {**rest, METADATA: {k: v for k, v in as_dict(wire[METADATA]).items() if k != "content_item_metadata"}}


def repaired(items: list[Item], kind: str, outputs: dict[str, str]) -> list[Item]:
    """The items as they go out: open calls answered, outputs without a call dropped, old outputs as text.

    `outputs` names, by call, the row that shows a command's output longer than the model got it.
    """
    named = [(as_str((i.wire or {}).get("type")), as_str((i.wire or {}).get("call_id"))) for i in items]
    answered = {call for type, call in named if type.endswith("_output")}
    calls = {call for type, call in named if type.endswith("_call")}
    out: list[Item] = []
    for item, (type, call) in zip(items, named, strict=True):
        if type.endswith("_output") and call and call not in calls:
            continue
        if item.state == "preview":
            item = msgspec.structs.replace(item, original=outputs.get(call))
        if type.endswith("_output") and kind != "compact":
            item = _as_text(item)
        out.append(item)
        if type.endswith("_call") and call and call not in answered and type != "web_search_call":
            out.append(_aborted(item, type, call))
    return out


def compaction_request(remote: bool) -> Item:
    """What ends a request for a compaction."""
    why = "known from captures, not in the log"
    if remote:
        trigger = {"type": "compaction_trigger"}
        return Item("compaction-request", "user", [trigger], trigger, "", "reminder", why)
    wire = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SUMMARY_PROMPT}]}
    return Item("compaction-request", "user", [text_block(SUMMARY_PROMPT)], wire, "", "reminder", why)


def _as_text(item: Item) -> Item:
    """An output that was logged as JSON {output, metadata}, in the words that were sent."""
    raw = (item.wire or {}).get("output")
    if not isinstance(raw, str) or not raw.startswith('{"output":'):
        return item
    try:
        data = msgspec.json.decode(raw)
        meta = data["metadata"]
        seconds = f"{meta['duration_seconds']:g}"
        text = f"Exit code: {meta['exit_code']}\nWall time: {seconds} seconds\nOutput:\n{data['output']}"
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError, ValueError):
        return item
    wire = {**(item.wire or {}), "output": text}
    return msgspec.structs.replace(
        item, wire=wire, blocks=[tool_result(wire.get("call_id"), text)], reason="logged as JSON, sent as text"
    )


def _aborted(item: Item, type: str, call: str) -> Item:
    """The output that a call without one gets on the wire."""
    kind = "custom_tool_call_output" if type == "custom_tool_call" else "function_call_output"
    wire = {"type": kind, "call_id": call, "output": "aborted"}
    why = "the call has no output in the log: killed before it was written"
    return Item(f"{item.id}:aborted", "user", [tool_result(call, "aborted")], wire, "", "repair", why, None, (item.id,))
