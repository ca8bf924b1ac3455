"""Reading rules of OpenHands V0 event lists: a JSON list of events, or evaluation output lines with `history`.

Knows: which events are messages, which answer a call, and what a condensation forgets. The list
does not hold what the prompt templates added (workspace context, microagents), so every request
of a V0 session is partial. An `output.jsonl` holds one session a line, named by `instance_id`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionNotFound
from ..history.events import Block, CompactionBoundaryCreated, ForeignRow, MessageAppended, PromptSet
from ..history.log import Log
from . import words
from .base import Leaf, Step
from .calls import Builder, Calls, Item, View, batched
from .documents import load, row_lines

UNKNOWN = ("V0 adds workspace context, microagents and prompt templates that its event list does not hold",)


def is_history(value: list[Any]) -> bool:
    """A V0 event list: (pairs of) objects with an action or an observation and a source."""
    first = value[0] if value else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and ("action" in first or "observation" in first) and ("source" in first or "args" in first)


def is_output(value: dict[str, Any]) -> bool:
    history = value.get("history")
    return isinstance(history, list) and (is_history(history) or ("instance_id" in value and not history))


def _outputs(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    out = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            value, _ = load(line)
            if isinstance(value, dict) and isinstance(value.get("history"), list):
                out.append((number, value))
    return out


def session_ids(path: Path) -> list[str] | None:
    """Instance ids of an output file; None where the file is none."""
    data = path.read_bytes()
    found = _outputs(data) if b'"history"' in data else []
    return [words.word(v.get("instance_id")) or f"line-{n}" for n, v in found] if found else None


def read(path: Path, data: bytes, session_id: str | None) -> Log | None:
    """The session, or None when the file holds no V0 events. Without an id the last line of an output file."""
    if b'"history"' in data and (found := _outputs(data)):
        named = [(n, v) for n, v in found if session_id in (None, words.word(v.get("instance_id")), f"line-{n}")]
        if not named:
            raise SessionNotFound(f"{path}: no instance {session_id} here; nova_nb.list_sessions(path) lists them")
        line, value = named[-1]
        rows = value["history"]
        return _log(path, rows, [line] * len(rows), Builder(), len(data), words.word(value.get("instance_id")))
    if data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"[":
        return None
    rows, damage = load(data)
    if not isinstance(rows, list) or not is_history(rows):
        return None
    return _log(path, rows, row_lines(data, None), Builder(damage=damage), len(data), "")


def _log(path: Path, raw: list[Any], lines: list[int], build: Builder, size: int, session: str) -> Log:
    items: list[Item] = []
    kinds: dict[str, dict[str, Any]] = {}
    starts: list[tuple[int, Step]] = []
    answered: set[str | None] = set()
    model: str | None = None
    for i, pair in enumerate(raw):
        line = lines[i] if i < len(lines) else 1
        for value in pair if isinstance(pair, list) else [pair]:
            if not isinstance(value, dict):
                continue
            id = build.unique(words.word(value.get("id")) if "id" in value else f"e{i}", line)
            at, action = words.word(value.get("timestamp")), value.get("action")
            args = value["args"] if isinstance(value.get("args"), dict) else {}
            kinds[id] = value
            if action == "system":
                build.add(PromptSet(id=id, at=at, system=words.blocks_of(args.get("content"))), line)
                items.append(Item(id, "system", words.blocks_of(args.get("content"))))
            elif action == "condensation":
                summary = words.blocks_of(args.get("summary"))
                build.add(CompactionBoundaryCreated(id=id, at=at, logical_parent=build.last, content=summary, meta=args), line)
                items.append(Item(id, "condensation", summary))
            elif (said := _said(value, args)) is not None:
                role, blocks, response = said
                group = words.word(response.get("id")) or None
                usage = words.usage(response.get("usage"))
                model = words.word(response.get("model")) or model
                build.last = _append(build, id, line, role, blocks, at, group, usage, model)
                if role == "assistant" and (group is None or group not in answered):
                    answered.add(group)
                    starts.append((len(items), Step(len(starts) + 1, "main", usage, "partial", id, line, at, model)))
                items.append(Item(id, role, blocks, None, f"answer-{group}" if group and role == "assistant" else ""))
            else:
                kind = words.word(action or value.get("observation")) or "unknown"
                build.add(ForeignRow(id=id, at=at, kind=kind, parent=build.last, data=value), line)
    return build.log(path, "openhands", _calls(items, kinds, starts), size, "0", session)


def _append(
    build: Builder,
    id: str,
    line: int,
    role: str,
    blocks: list[Block],
    at: str,
    group: str | None,
    usage: Any,
    model: str | None,
) -> str:
    event = MessageAppended(
        id=id,
        at=at,
        parent=build.last,
        role=role,
        content=blocks,
        origin={"assistant": "model"}.get(role, "tool" if blocks and blocks[0].get("type") == "tool_result" else "person"),
        group=group if role == "assistant" else None,
        usage=usage if role == "assistant" else None,
        model=model if role == "assistant" else None,
    )
    build.add(event, line)
    return id


def _said(value: dict[str, Any], args: dict[str, Any]) -> tuple[str, list[Block], dict[str, Any]] | None:
    """Role, blocks and the provider's response of an event that is a message; None for the others."""
    meta = value["tool_call_metadata"] if isinstance(value.get("tool_call_metadata"), dict) else {}
    call = words.word(meta.get("tool_call_id"))
    response = meta["model_response"] if isinstance(meta.get("model_response"), dict) else {}
    if "action" in value and value["action"] not in ("recall", "change_agent_state", "null", None):
        if call and value.get("source") == "agent":
            text, input = _called(response, call)
            thought = text if text is not None else words.word(args.get("thought"))
            use = words.tool_use(call, meta.get("function_name"), input if input is not None else args)
            return "assistant", [*words.blocks_of(thought), use], response
        if value["action"] in ("message", "finish", "think") or value.get("source") == "agent":
            role = "user" if value.get("source") == "user" else "assistant"
            content = args.get("content") or args.get("thought") or args.get("final_thought") or value.get("message")
            return role, words.blocks_of(content), response
    if "observation" in value and value["observation"] not in ("recall", "agent_state_changed", "null", None):
        content = words.word(value.get("content"))
        return "user", [words.tool_result(call, content) if call else words.text_block(content)], {}
    return None


def _called(response: dict[str, Any], call: str) -> tuple[str | None, Any]:
    """The text of the answer (once, with its first call) and the input of a call."""
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = first.get("message")
    message = message if isinstance(message, dict) else {}
    calls = message.get("tool_calls")
    for i, one in enumerate(calls if isinstance(calls, list) else []):
        if isinstance(one, dict) and one.get("id") == call and isinstance(one.get("function"), dict):
            text = words.text_of(message.get("content")) if i == 0 else ""
            return text, words.arguments(one["function"].get("arguments"))
    return None, None


def _calls(items: list[Item], kinds: dict[str, dict[str, Any]], starts: list[tuple[int, Step]]) -> Calls:
    said = [item.id for item in items if item.role in ("user", "assistant")]

    def view(step: int | None) -> View:
        count = len(items) if step is None else starts[step - 1][0]
        seen: list[Item] = []
        left: dict[str, tuple[str, str]] = {}
        for item in items[:count]:
            if item.role != "condensation":
                seen.append(item)
                continue
            args = kinds[item.id].get("args")
            args = args if isinstance(args, dict) else {}
            gone = _forgotten(args, [i.id for i in seen])
            left.update(dict.fromkeys(gone, ("boundary", "forgotten by a condensation")))
            seen = [i for i in seen if i.id not in gone]
            if item.blocks:
                offset = args.get("summary_offset")
                at = min(max(offset, 0), len(seen)) if isinstance(offset, int) else len(seen)
                seen.insert(at, msgspec.structs.replace(item, role="user", state="summary", reason="condensation"))
        system = next((i.blocks for i in seen if i.role == "system"), None)
        return View(batched([i for i in seen if i.role != "system"]), system, None, UNKNOWN, left)

    def on_branch(leaf: str | None) -> list[str]:
        return said if leaf not in said else said[: said.index(leaf) + 1]

    last = Leaf(said[-1] if said else None, None, "last-in-file")
    return Calls(tuple(step for _, step in starts), view, last, on_branch, said)


def _forgotten(args: dict[str, Any], ids: list[str]) -> set[str]:
    named = args.get("forgotten_event_ids")
    if isinstance(named, list):
        return {str(i) for i in named} & set(ids)
    start, end = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
    if isinstance(start, int) and isinstance(end, int):
        return {i for i in ids if i.isdigit() and start <= int(i) <= end}
    return set()
