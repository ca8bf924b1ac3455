"""Reading rules of plain request bodies: one JSON document, or a capture with one body a line.

Knows: bodies of Anthropic Messages, OpenAI Chat, OpenAI Responses and Gemini; wrappers that keep
one under `body` or `request`, with the answer beside it; stored completions, input-item listings
and bare lists of messages. Each body is a step, and what it holds is recorded. So a capture opens
like a session, and can be compared with the session that its agent wrote. A capture has no tree:
its messages follow each other as they were first sent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..history.events import Block, ForeignRow
from ..history.log import Damage, Log
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, Wire, batched, message_event, one_session
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, peek_rows, read_bytes, row_lines
from .rows import read_rows

name = "request-body"

_KINDS = {"sub": "subagent"}


def sniff(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return False
    value = peek(head)
    if isinstance(value, list) or body_of(value) is not None:
        return body_of(value) is not None
    return any(body_of(row) is not None for row in peek_rows(head))


def body_of(row: Any) -> dict[str, Any] | None:
    """The body that a document or a line holds, or None.

    >>> body_of({"request": {"body": '{"model": "m", "input": "hi"}'}})
    {'model': 'm', 'input': 'hi'}
    """
    if isinstance(row, list):
        return {"messages": row} if _messages(row) else None
    if not isinstance(row, dict):
        return None
    if _messages(row.get("messages")) or _messages(row.get("contents")) or _is_input(row):
        return row
    if row.get("object") == "list" and isinstance(row.get("data"), list) and _items(row["data"]):
        return {"input": _oldest_first(row["data"])}
    for key in ("body", "request", "postData", "json"):
        inner = row.get(key)
        inner = words.arguments(inner) if isinstance(inner, str) and inner.lstrip()[:1] == "{" else inner
        if isinstance(inner, dict) and (found := body_of(inner)) is not None:
            return found
    return None


def _messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and isinstance(value[0].get("role"), str)


def _items(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], dict) and ("type" in value[0] or "role" in value[0])


def _is_input(row: dict[str, Any]) -> bool:
    given = row.get("input")
    known = "model" in row or "instructions" in row or "previous_response_id" in row
    return known and (isinstance(given, str) or (isinstance(given, list) and (not given or _items(given))))


def _oldest_first(items: list[Any]) -> list[Any]:
    """The listing in the order of the conversation: the API can list it the other way round, calls after their results."""
    place: dict[str, int] = {}
    for i, item in enumerate(items):
        if isinstance(item, dict) and item.get("type") == "function_call" and isinstance(item.get("call_id"), str):
            place[item["call_id"]] = i
    for i, item in enumerate(items):
        if isinstance(item, dict) and item.get("type") == "function_call_output" and place.get(item.get("call_id", ""), -1) > i:
            return items[::-1]
    return items


def list_sessions(path: Path) -> list[SessionInfo]:
    return one_session(path, name)


def read(path: Path, session_id: str | None = None) -> Log:
    data = read_bytes(path)
    value, damage = load(data)
    found, lines = body_of(value), row_lines(data, "messages" if isinstance(value, dict) else None)
    whole = found is not None and not any(d.kind == "spliced" for d in damage)
    if whole and isinstance(value, list):
        return _conversation(path, value, lines, damage, len(data))
    reader = Reader(Builder(damage=damage))
    if whole:
        reader.add(value, 1, lines)
    else:
        lined = read_rows(path)
        reader.build.damage = lined.damage
        for row in lined.rows:
            reader.add(row.value, row.line, [])
    return reader.build.log(path, name, reader.calls(), len(data))


def _conversation(path: Path, rows: list[Any], lines: list[int], damage: list[Damage], size: int) -> Log:
    """A bare list of messages: each of the model's was a call with all before it."""
    reader = Reader(Builder(damage=damage))
    for i, row in enumerate(rows):
        if isinstance(row, dict) and row.get("role") == "assistant":
            reader.add(
                {"messages": rows[:i], "response": {"choices": [{"message": row}]}},
                lines[i] if i < len(lines) else 1,
                lines,
                "rebuilt",
            )
    if not reader.bodies or rows[-1] is not rows[_last_answer(rows)]:
        reader.items_of({"messages": rows}, 1, lines)
    return reader.build.log(path, name, reader.calls({"messages": rows}), size)


def _last_answer(rows: list[Any]) -> int:
    return max((i for i, row in enumerate(rows) if isinstance(row, dict) and row.get("role") == "assistant"), default=0)


class Reader:
    """Folds bodies into events: a message that comes again at its place is the same record."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.known: dict[tuple[str, int], Item] = {}
        self.bodies: list[tuple[Step, dict[str, Any], list[Item]]] = []
        self.last: tuple[dict[str, Any], list[Item]] | None = None

    def add(self, row: dict[str, Any], line: int, lines: list[int], basis: str = "recorded") -> None:
        """A document or a line of a capture; what holds no body is kept as it is."""
        found = body_of(row)
        if found is None:
            id = self.build.unique(f"line-{line}", line)
            self.build.add(ForeignRow(id=id, kind="event" if "event" in row else "line", data=row), line)
            return
        items = self.items_of(found, line, lines)
        number = len(self.bodies) + 1
        given = row.get("kind")
        kind = _KINDS.get(given, given) if isinstance(given, str) else "main"
        answer, usage, model = self._answer(row, found, items, line)
        id = self.build.unique(f"request-{number}", line)
        facts = {
            k: v for k, v in row.items() if k not in ("body", "request", "messages", "input", "contents", "response", "choices")
        }
        self.build.add(ForeignRow(id=id, kind="request", parent=items[-1].id if items else None, data=facts), line)
        record = answer[-1].id if answer else id
        said = found.get("model")
        step = Step(number, kind, usage, basis, record, line, "", model or (said if isinstance(said, str) else None))
        self.bodies.append((step, found, items))
        self.last = (found, [*items, *answer])

    def items_of(self, found: dict[str, Any], line: int, lines: list[int]) -> list[Item]:
        """Items of a body's messages; a message met for the first time becomes an event."""
        out: list[Item] = []
        seen: dict[str, int] = {}
        rows, convert = _rows(found)
        for i, row in enumerate(rows):
            text = words.compact(_unmarked(row))
            seen[text] = seen.get(text, 0) + 1
            key = (text, seen[text])
            if key not in self.known:
                at = lines[i] if i < len(lines) else line
                role, blocks = convert(row)
                id = self.build.unique(words.word(row.get("id")) or f"m{len(self.known) + 1}", at)
                event = message_event(id, role, blocks, self.build.last, group=id if role == "assistant" else None)
                self.build.add(event, at)
                self.build.last = id
                self.known[key] = Item(id, role, blocks, row)
            out.append(self.known[key])
        return out

    def _answer(
        self, row: dict[str, Any], found: dict[str, Any], items: list[Item], line: int
    ) -> tuple[list[Item], Any, str | None]:
        """What the capture holds of the answer: its items, its usage, its model."""
        response = row.get("response")
        inner = response.get("body") if isinstance(response, dict) else None
        inner = words.arguments(inner) if isinstance(inner, str) and inner.lstrip()[:1] == "{" else inner
        for reply in (inner, response, row):
            if not isinstance(reply, dict):
                continue
            choices, output, content = reply.get("choices"), reply.get("output"), reply.get("content")
            first = choices[0] if isinstance(choices, list) and choices else None
            message = first.get("message") if isinstance(first, dict) else None
            said: list[Wire] = []
            if isinstance(message, dict):
                said = [message]
            elif isinstance(output, list) and reply is not found:
                said = [o for o in output if isinstance(o, dict)]
            elif isinstance(content, list) and reply.get("role") == "assistant":
                said = [{"role": "assistant", "content": content}]
            if said:
                key = next(k for k in ("messages", "input", "contents") if k in found)
                given = [i.wire for i in items if i.wire is not None]
                model = words.word(reply.get("model")) or None
                answer = self.items_of({**found, key: [*given, *said]}, line, [])[len(items) :]
                return answer, words.usage(reply.get("usage")), model
        return [], None, None

    def calls(self, following: dict[str, Any] | None = None) -> Calls:
        """`following`: the body of the next request, where it is more than the last one with its answer."""
        last_body, last_items = self.last if self.last is not None else ({}, [])
        if following is not None:
            last_body, last_items = following, self.items_of(following, 1, [])

        here = {item.id for item in last_items}
        said = [item.id for item in self.known.values() if item.role != "system"]
        left = {id: ("projection", "in an earlier request of the capture and not in its last") for id in said if id not in here}

        def view(step: int | None) -> View:
            if step is None:
                return _view(last_body, last_items, left, with_body=False)
            _, found, items = self.bodies[step - 1]
            return _view(found, items, {}, with_body=True)

        def on_branch(leaf: str | None) -> list[str]:
            return said if leaf not in said else said[: said.index(leaf) + 1]

        last = last_items[-1].id if last_items else None
        line = next((at for e, at in zip(self.build.events, self.build.lines, strict=True) if e.id == last), None)
        return Calls(tuple(step for step, _, _ in self.bodies), view, Leaf(last, line, "last-request"), on_branch, None)


def _rows(found: dict[str, Any]) -> tuple[list[Wire], Any]:
    """A body's messages and how they become neutral."""
    given = found.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}], words.response_item
    if isinstance(given, list) and "messages" not in found:
        return [row for row in given if isinstance(row, dict)], words.response_item
    if isinstance(found.get("contents"), list):
        return [row for row in found["contents"] if isinstance(row, dict)], words.gemini
    rows = [row for row in found.get("messages") or [] if isinstance(row, dict)]
    return rows, words.anthropic if _is_anthropic(found, rows) else words.chat


def _is_anthropic(found: dict[str, Any], rows: list[Wire]) -> bool:
    if "system" in found:
        return True
    if any(row.get("role") in ("tool", "developer") or "tool_calls" in row for row in rows):
        return False
    kinds = {
        part.get("type")
        for row in rows
        if isinstance(row.get("content"), list)
        for part in row["content"]
        if isinstance(part, dict)
    }
    return bool(kinds & {"tool_use", "tool_result", "thinking", "redacted_thinking"})


def _unmarked(value: Any, depth: int = 0) -> Any:
    """Without cache marks: a message that only lost its mark is the same message."""
    if depth > 8:
        return value
    if isinstance(value, dict):
        return {k: _unmarked(v, depth + 1) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(part, depth + 1) for part in value] if isinstance(value, list) else value


def _view(found: dict[str, Any], items: list[Item], left: dict[str, tuple[str, str]], with_body: bool) -> View:
    head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    unknown: list[str] = []
    given = next((found[k] for k in ("system", "instructions", "systemInstruction") if found.get(k)), None)
    system: list[Block] | None
    if isinstance(given, dict) and "left_out" in given:
        system = None  # the capture's own mark stays in the body
    elif isinstance(given, dict):
        system = words.gemini(given)[1]
    else:
        system = words.blocks_of(given) + [block for item in items[:head] for block in item.blocks]
    tools = found.get("tools")
    if found.get("previous_response_id") or found.get("conversation"):
        unknown.append("the body continues a conversation that the provider holds; what came before is not in it")
    listed = [t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else None
    return View(batched(items[head:]), system, listed, tuple(unknown), left, found if with_body else None)
