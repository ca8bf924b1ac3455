"""What an OpenHands model sees of a path of V1 events.

Knows the rules of SDK 1.x: a condensation forgets events and puts its summary at an offset; calls
without a result and results without a call are left out, with the whole batch of an answer; of two
results that follow each other for one call one is kept; the calls of one answer are one message;
user messages that follow each other are one message with several parts; a terminal result ends
with the directory and the exit code and is cut in its middle at 30,000 characters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ..history.events import Block
from . import words
from .calls import Item, View, batched

SYSTEM, MESSAGE, ACTION, CONDENSATION = "SystemPromptEvent", "MessageEvent", "ActionEvent", "Condensation"
OBSERVATION, ERROR = "ObservationEvent", "AgentErrorEvent"
RESULTS = (OBSERVATION, "UserRejectObservation", ERROR)

LIMIT = 30_000
"""Characters of a terminal result; MAX_CMD_OUTPUT_SIZE of the SDK's terminal tool."""
CLIPPED = "<response clipped><NOTE>Due to the max output limit, only part of the full response has been shown to you.</NOTE>"
ERROR_HEADER = "[An error occurred during execution.]\n"


class Row(msgspec.Struct, frozen=True):
    """One event: its unique id, its line, what it is, its parent, and the event itself."""

    id: str
    line: int
    kind: str
    parent: str | None
    value: dict[str, Any]


def system_blocks(value: dict[str, Any]) -> list[Block]:
    parts = [value.get("system_prompt"), value.get("dynamic_context")]
    return words.blocks_of([p for p in parts if isinstance(p, dict | str)])


def _parts(content: Any) -> list[Block]:
    """Content parts as they are sent: without the SDK's own cache flag."""
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    out: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            out.append(words.text_block(part))
        elif isinstance(part, dict) and isinstance(part.get("image_urls"), list):
            out += [{"type": "image_url", "image_url": {"url": url}} for url in part["image_urls"]]
        elif isinstance(part, dict):
            out.append({k: v for k, v in part.items() if k != "cache_prompt"})
    return out


def result_parts(row: Row) -> list[Block]:
    """The content of a result message."""
    value = row.value
    if row.kind == ERROR:
        return [words.text_block(words.word(value.get("error")))]
    if row.kind != OBSERVATION:
        return [words.text_block(f"Action rejected: {words.word(value.get('rejection_reason'))}")]
    seen = value.get("observation")
    seen = seen if isinstance(seen, dict) else {}
    parts = _parts(seen.get("content"))
    metadata = seen.get("metadata")
    if isinstance(metadata, dict):
        text = "".join(p["text"] for p in parts if isinstance(p.get("text"), str))
        parts = [words.text_block(_terminal(text, metadata, seen.get("full_output_save_dir")))]
    if seen.get("is_error") is True:
        parts = [words.text_block(ERROR_HEADER), *parts]
    return [*parts, *_parts(value.get("extended_content"))]


def _terminal(text: str, metadata: dict[str, Any], folder: Any) -> str:
    out = f"{words.word(metadata.get('prefix'))}{text}{words.word(metadata.get('suffix'))}"
    if metadata.get("working_dir"):
        out += f"\n[Current working directory: {metadata['working_dir']}]"
    if metadata.get("py_interpreter_path"):
        out += f"\n[Python interpreter: {metadata['py_interpreter_path']}]"
    if metadata.get("exit_code", -1) != -1:
        out += f"\n[Command finished with exit code {metadata['exit_code']}]"
    if len(out) <= LIMIT:
        return out
    head = out[: math.ceil((LIMIT - len(CLIPPED)) / 2)]
    notice = CLIPPED
    if isinstance(folder, str) and folder:
        digest = hashlib.sha256(out.encode("utf-8", "replace")).hexdigest()[:8]
        notice = CLIPPED.removesuffix("</NOTE>") + (
            f" The complete output has been saved to {folder}/terminal_output_{digest}.txt"
            " - you can use other tools to view the full content"
            f" (truncated part starts around line {len(head.splitlines()) + 1}).</NOTE>"
        )
    return head + notice + out[len(out) - (LIMIT - len(head) - len(notice)) :]


def blocks_of_row(row: Row) -> tuple[str, list[Block]]:
    """Role and neutral blocks of a message, action or result."""
    value = row.value
    if row.kind == MESSAGE:
        message = value.get("llm_message")
        message = message if isinstance(message, dict) else {}
        role, blocks = words.chat({k: v for k, v in message.items() if k not in ("content", "reasoning_content")})
        text = words.blocks_of(_parts(message.get("content")) + _parts(value.get("extended_content")))
        signed = [b for b in blocks if b.get("type") in ("thinking", "redacted_thinking")]
        return role, [*signed, *text, *(b for b in blocks if b not in signed)]
    if row.kind == ACTION:
        thought = value.get("thinking_blocks")
        signed = words.blocks_of([b for b in thought if isinstance(b, dict)]) if isinstance(thought, list) else []
        call = value.get("tool_call")
        call = call if isinstance(call, dict) else {}
        use = words.tool_use(
            value.get("tool_call_id") or call.get("id"), call.get("name") or value.get("tool_name"), call_text(call)
        )
        return "assistant", [*signed, *words.blocks_of(_parts(value.get("thought"))), use]
    seen = value.get("observation")
    error = row.kind == ERROR or (isinstance(seen, dict) and seen.get("is_error") is True)
    return "user", [words.tool_result(value.get("tool_call_id"), result_parts(row), error)]


def call_text(call: dict[str, Any]) -> Any:
    """The arguments of a call; older files have them under `function`."""
    function = call.get("function")
    return function.get("arguments") if isinstance(function, dict) else call.get("arguments")


def view_of(path: Sequence[Row]) -> View:
    """The request that follows a path of events."""
    left: dict[str, tuple[str, str]] = {}
    items: list[tuple[Row, Item]] = []
    for row in path:
        if row.kind == CONDENSATION:
            items = _condensed(items, row, left)
        elif row.kind == SYSTEM:
            items.append((row, Item(row.id, "system", system_blocks(row.value))))
        elif row.kind in (MESSAGE, ACTION, *RESULTS):
            role, blocks = blocks_of_row(row)
            items.append((row, Item(row.id, role, blocks)))
    items = _whole(items, path, left)
    system = next((item.blocks for row, item in items if row.kind == SYSTEM), None)
    tools = next((row.value.get("tools") for row, _ in items if row.kind == SYSTEM), None)
    shown = _grouped([pair for pair in items if pair[0].kind != SYSTEM])
    wire = ([{"role": "system", "content": system}] if system is not None else []) + _wire(shown)
    unknown = () if system is not None else ("the log holds no system prompt",)
    tools = [t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else None
    return View(batched([item for _, item in shown]), system, tools, unknown, left, {"messages": wire})


def _condensed(items: list[tuple[Row, Item]], row: Row, left: dict[str, tuple[str, str]]) -> list[tuple[Row, Item]]:
    named = row.value.get("forgotten_event_ids")
    forgotten = {i for i in named if isinstance(i, str)} if isinstance(named, list) else set()
    for _, item in items:
        if item.id in forgotten:
            left[item.id] = ("boundary", f"forgotten by the condensation in line {row.line}")
    kept = [pair for pair in items if pair[1].id not in forgotten]
    summary, offset = row.value.get("summary"), row.value.get("summary_offset")
    if isinstance(summary, str) and isinstance(offset, int):
        item = Item(
            f"{row.id}-summary", "user", [words.text_block(summary)], None, "", "summary", "condensation", None, (row.id,)
        )
        kept.insert(min(max(offset, 0), len(kept)), (row, item))
    return kept


def _call_id(row: Row) -> str:
    return words.word(row.value.get("tool_call_id"))


def _whole(items: list[tuple[Row, Item]], path: Sequence[Row], left: dict[str, tuple[str, str]]) -> list[tuple[Row, Item]]:
    """Only whole pairs, whole batches, one result a call; repeated until nothing changes."""
    batches: dict[str, set[str]] = {}
    for row in path:
        if row.kind == ACTION:
            batches.setdefault(words.word(row.value.get("llm_response_id")), set()).add(row.id)
    while True:
        calls = {_call_id(row) for row, _ in items if row.kind == ACTION}
        results = {_call_id(row) for row, _ in items if row.kind in RESULTS}
        here: dict[str, set[str]] = {}
        for row, _ in items:
            if row.kind == ACTION:
                here.setdefault(words.word(row.value.get("llm_response_id")), set()).add(row.id)
        drop: dict[str, str] = {}
        for row, _ in items:
            if row.kind == ACTION and _call_id(row) not in results:
                drop[row.id] = "the call has no result, so it is not sent"
            elif row.kind in RESULTS and _call_id(row) not in calls:
                drop[row.id] = "the result has no call in the request, so it is not sent"
            elif row.kind == ACTION:
                batch = words.word(row.value.get("llm_response_id"))
                if here[batch] != batches[batch]:
                    drop[row.id] = "another call of the same answer is not sent, so the whole answer is not"
        drop.update(_repeated(items))
        if not drop:
            return items
        left.update({id: ("pairing", reason) for id, reason in drop.items()})
        items = [pair for pair in items if pair[0].id not in drop]


def _repeated(items: list[tuple[Row, Item]]) -> dict[str, str]:
    """Results directly after each other for one call: the last observation stays, else the last of any kind."""
    drop: dict[str, str] = {}
    run: list[Row] = []
    for row in [*(row for row, _ in items), None]:
        if row is not None and run and row.kind in RESULTS and _call_id(row) == _call_id(run[-1]):
            run.append(row)
            continue
        if len(run) > 1:
            ranked = sorted(run, key=lambda r: (r.kind == OBSERVATION, r.kind != ERROR))
            drop.update({r.id: "another result of the same call is sent" for r in run if r is not ranked[-1]})
        run = [row] if row is not None and row.kind in RESULTS else []
    return drop


def _grouped(items: list[tuple[Row, Item]]) -> list[tuple[Row, Item]]:
    """Calls of one answer, and user messages that follow each other, under one message name."""
    out: list[tuple[Row, Item]] = []
    for row, item in items:
        before = out[-1] if out else None
        if before is not None and before[1].role == item.role:
            one_answer = row.kind == ACTION == before[0].kind and row.value.get("llm_response_id") == before[0].value.get(
                "llm_response_id"
            )
            both_said = item.role == "user" and row.kind not in RESULTS and before[0].kind not in RESULTS
            if one_answer or both_said:
                item = msgspec.structs.replace(item, message=before[1].message or before[1].id)
        out.append((row, item))
    return out


def _wire(items: list[tuple[Row, Item]]) -> list[dict[str, Any]]:
    """Chat messages, as litellm sends them to an OpenAI-like provider."""
    out: list[dict[str, Any]] = []
    for row, item in items:
        value = row.value
        joined = bool(item.message)
        if row.kind in RESULTS:
            name = words.word(value.get("tool_name"))
            out.append({"role": "tool", "content": result_parts(row), "tool_call_id": _call_id(row), "name": name})
        elif row.kind == ACTION:
            call = value.get("tool_call")
            call = call if isinstance(call, dict) else {}
            function = {"name": call.get("name") or value.get("tool_name"), "arguments": call_text(call)}
            use = {"id": _call_id(row), "type": "function", "function": function}
            if joined:
                out[-1].setdefault("tool_calls", []).append(use)
            else:
                thought = _parts(value.get("thought"))
                out.append({"role": "assistant", **({"content": thought} if thought else {}), "tool_calls": [use]})
        else:
            content = [b for b in item.blocks if b.get("type") not in ("thinking", "redacted_thinking", "tool_use")]
            if joined:
                out[-1]["content"] = [*out[-1]["content"], *content]
            else:
                out.append({"role": item.role, "content": content})
    return out
