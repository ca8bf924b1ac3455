"""From a list of messages to the contents that were sent.

Knows: the rules of 0.61.0 and 0.24.0 (docs/formats/gemini.md). Does not know the file (`replay`).

- info, warning and error messages are not sent, nor thoughts.
- results come from the row that follows; where there is none (older versions), from the calls.
- a new process reads both, so after a resume every earlier result is sent twice (0.61).
- 0.61 joins contents of one role that follow each other; 0.24 does not.
- 0.24 keeps the calls of an answer without text with the answer before. The process that made them
  sent them apart; after a resume they go out as one turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..calls import Item
from ..common import Json, as_str
from .parts import block_of, call_part, has_results, model_parts, on_the_wire, parts_of, result_parts, signature, state_of
from .replay import Message, batches_of

TWICE = "sent twice: with its call and as the row that follows (a resume reads both)"


class Contents:
    """Collects contents as items, one an item a part, with the record each came from."""

    def __init__(self, names: dict[tuple[str, ...], str], joins: bool, bare: bool = True) -> None:
        self.items: list[Item] = []
        self._names = names
        self._joins = joins
        self._bare = bare
        self._role = ""
        self._key = ""
        self._count = 0
        self._answered: set[str] = set()

    def add(self, role: str, parts: Iterable[Json], record: str) -> None:
        """One content. Consecutive contents of a role become one where the client joins them."""
        parts = list(parts)
        if not parts:
            return
        if not (self._joins and role == self._role):
            self._count += 1
            self._key = f"content {self._count}"
            self._answered.clear()
        self._role = role
        record = self._names.get(signature(parts), record)
        for part in parts:
            block = block_of(part)
            state, reason, original = state_of(block)
            if block.get("type") == "tool_result":
                if block["tool_use_id"] in self._answered:
                    reason = TWICE
                self._answered.add(block["tool_use_id"])
            neutral = "assistant" if role == "model" else "user"
            wire = {"role": role, "part": on_the_wire(part) if self._bare else part}
            id = f"{record}.{len(self.items)}"
            self.items.append(Item(id, neutral, [block], wire, self._key, state, reason, original, (record,)))


def contents_of(
    messages: list[Message], names: dict[tuple[str, ...], str], joins: bool, resumed: bool, batches: int = 0, open: bool = False
) -> list[Item]:
    """The contents of a list of messages. `resumed`: as a new process reads it from the file.

    `open`: as a compression sees it, with the newest calls not answered yet and ids as they are stored.
    """
    out = Contents(names, joins, not open)
    turn = next((i for i in range(len(messages) - 1, -1, -1) if _asks(messages[i])), 0)
    for i, message in enumerate(messages):
        if message.kind == "user":
            parts = parts_of(message.data.get("content"))
            if not (resumed and not message.copy and _command(parts)):
                out.add("user", parts, message.id)
        elif message.kind == "gemini":
            following = messages[i + 1] if i + 1 < len(messages) else None
            if open and following is None:
                out.add("model", model_parts(message.data), message.id)
                continue
            _model(
                out,
                message,
                following,
                resumed,
                apart=i > turn and not joins and not resumed,
                batches=batches if i == len(messages) - 1 else 0,
            )
    return out.items


def _model(out: Contents, message: Message, following: Message | None, resumed: bool, apart: bool, batches: int) -> None:
    """A model's turn and, where no row of its own holds them, the results of its calls."""
    if message.copy:
        out.add("model", model_parts(message.data), message.id)
        return
    groups = batches_of(message.data)
    if apart and len(groups) > 1:
        for n, group in enumerate(groups[: batches or None]):
            text = parts_of(message.data.get("content")) if n == 0 else []
            out.add("model", text + [call_part(call) for call in group], message.id)
            out.add("user", [part for call in group for part in result_parts(call)], f"{message.id}_response")
        return
    data = message.data
    if resumed or not _answers(following):
        done = [call for group in groups for call in group if result_parts(call)]
        data = {**data, "toolCalls": done}
    out.add("model", model_parts(data), message.id)
    if resumed or not _answers(following):
        results = [part for group in groups for call in group for part in result_parts(call)]
        out.add("user", results, f"{message.id}_response")


def _answers(message: Message | None) -> bool:
    return message is not None and message.kind == "user" and has_results(parts_of(message.data.get("content")))


def _asks(message: Message) -> bool:
    return message.kind == "user" and not _answers(message)


def _command(parts: list[Json]) -> bool:
    """What a resume leaves out: commands to the client, and context that it makes anew."""
    text = as_str(parts[0].get("text")) if parts else ""
    return text.startswith(("/", "?", "<hook_context>"))


def wire_of(items: list[Item]) -> list[Json]:
    """Items as contents: those of one message are its parts."""
    out: list[Json] = []
    last = ""
    for item in items:
        wire = item.wire or {}
        if item.message != last or not out:
            out.append({"role": wire.get("role"), "parts": []})
            last = item.message
        out[-1]["parts"].append(wire.get("part"))
    return out
