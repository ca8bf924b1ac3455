"""From the rows of a rollout to what each request held.

Knows: the history that Codex keeps in memory, replayed from its log. Measured item by item on
0.171.0 and 0.98.0 (docs/formats/codex.md); between them the same rules held at both ends.

- history = `response_item` payloads in file order; nothing else enters.
- `compacted` with `replacement_history` puts that in the place of everything before it. Without it
  (0.98): the context items logged last, every message of the person so far, then the summary.
- `thread_rolled_back` drops the last turns.
- on the wire only: a call without output is followed by the output "aborted"; an output that was
  logged as JSON is sent as text; the summary prompt ends a compaction request.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...history.events import BranchSelected, CompactionBoundaryCreated, ForeignRow, MessageAppended
from ..base import Leaf
from ..calls import Builder, Item, View
from ..common import Json, as_dict, as_int, as_str, version_of
from ..words import response_item, text_block
from .files import Row
from .sent import (
    BASE_IN_INPUT,
    CUT,
    KEPT_TOKENS,
    NOT_SENT,
    SUMMARY_START,
    compaction_request,
    is_context,
    on_the_wire,
    plain,
    repaired,
)  # fmt: skip
from .turns import Mark, Turns

MODEL_ITEMS = (
    "reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "image_generation_call",
    "tool_search_call",
)  # fmt: skip


class Fold:
    """Rows in, events out; `view(n)` is what step n was sent."""

    def __init__(self, meta: Json) -> None:
        self.build = Builder()
        self.version = version_of(as_str(meta.get("cli_version")))
        self.openai = as_str(meta.get("model_provider")).lower() in ("", "openai")
        """The provider is OpenAI itself: by its name in the header, or because it made an encrypted compaction."""
        base = meta.get("base_instructions")
        self.base = as_str(as_dict(base).get("text")) or as_str(meta.get("instructions"))
        self.epochs: list[list[Item]] = [[]]
        self.left: list[dict[str, tuple[str, str]]] = [{}]
        self.turns = Turns("rebuilt" if self._measured() else "partial")
        self.outputs: dict[str, str] = {}
        self.logged_base = False
        self.model: str | None = None
        self._answer = ""
        self._context: list[Item] = []
        self._context_open = False
        self._boundary: str | None = None

    @property
    def history(self) -> list[Item]:
        return self.epochs[-1]

    # rows

    def add(self, row: Row) -> None:
        """Take one row."""
        payload, kind = row.payload, as_str(row.payload.get("type"))
        if row.kind == "response_item" and kind not in NOT_SENT:
            self._item(row)
        elif row.kind == "inter_agent_communication":
            self._item(row._replace(payload={"type": "agent_message", **payload}))
        elif row.kind == "compacted":
            self._compacted(row)
        elif row.kind == "event_msg" and kind == "thread_rolled_back":
            self._rolled_back(row)
        else:
            if row.kind == "turn_context":
                self.model = as_str(payload.get("model")) or self.model
            id = self._foreign(row, f"{row.kind}/{kind}" if kind else row.kind)
            if row.kind == "token_usage_record":
                self.turns.counted(as_dict(payload.get("usage")))
            elif row.kind == "event_msg":
                self._event(kind, payload, id)

    def _foreign(self, row: Row, kind: str) -> str:
        id = self.build.unique(f"L{row.line}", row.line)
        self.build.add(ForeignRow(id=id, at=row.at, kind=kind, parent=self.build.last, data=row.payload), self._line(row))
        return id

    def _line(self, row: Row) -> int:
        return 0 if row.thread else row.line

    def _item(self, row: Row) -> None:
        wire = row.payload
        kind = as_str(wire.get("type"))
        role, blocks = response_item(wire)
        by_model = kind in MODEL_ITEMS or (kind == "message" and role == "assistant")
        if kind == "agent_message":
            role, blocks = "user", [text_block(plain(wire) or as_str(wire.get("content")))]
        if kind == "additional_tools":
            self.logged_base = True
        context = kind == "message" and not by_model and (role != "user" or is_context(wire))
        meta: dict[str, Any] = {"item": kind}
        if row.thread:
            meta["thread"] = row.thread
        if context:
            meta["hidden"] = True
        id = as_str(wire.get("id")) or as_str(wire.get("call_id")) or f"L{row.line}"
        if context and not self._context_open:
            if not self.turns.logged:
                self._new_turn(aborted=True)
            self._context = []
        id = self.build.unique(id, row.line)
        self.build.names.give_back(id)
        group = None
        if by_model:
            group = self.turns.steps[-1].record if self.turns.open and self.turns.steps else id
        model = self.model if by_model else None
        event = self.build.message(id, row.line, role, blocks, at=row.at, group=group, meta=meta, model=model)
        self.build.lines[-1] = self._line(row)
        item = self._shaped(event, wire, context)
        if by_model:
            if not self.turns.open:
                self.turns.step(event.id, self._line(row), row.at, self.model, self._mark())
            self._answer = plain(wire) or self._answer
            if "_call" in kind and as_str(wire.get("call_id")) and kind != "web_search_call":
                self.turns.call(as_str(wire.get("call_id")))
        else:
            self.turns.heard(as_str(wire.get("call_id")), not context and kind != "additional_tools")
        self._context_open = context
        if context:
            self._context.append(item)
        self.history.append(item)

    def _shaped(self, event: MessageAppended, wire: Json, context: bool) -> Item:
        """The item with its place among the messages: one answer is one message, and so is a batch of results."""
        block = event.content[0] if event.content else {}
        before = self.history[-1] if self.history else None
        message = event.id
        if before is not None and before.role == event.role and before.blocks:
            results = block.get("type") == "tool_result" and before.blocks[-1].get("type") == "tool_result"
            if results or (event.role == "assistant" and self.turns.open):
                message = before.message
        state, reason, original = "whole", "", None
        if context:
            text = as_str(block.get("text")).lstrip()
            memory = text.startswith(("# AGENTS.md", "<user_instructions>", "<INSTRUCTIONS>"))
            state, reason = ("memory" if memory else "reminder"), "put in by codex"
        elif block.get("type") == "tool_result":
            text = block["content"] if isinstance(block.get("content"), str) else ""
            if CUT.search(text):
                original = as_str(wire.get("call_id"))
                state, reason = "preview", "cut by codex before it was logged"
        return Item(event.id, event.role, event.content, wire, message, state, reason, original)

    # boundaries

    def _compacted(self, row: Row) -> None:
        payload = row.payload
        message = as_str(payload.get("message"))
        replacement = payload.get("replacement_history")
        given = [as_dict(item) for item in replacement] if isinstance(replacement, list) else None
        remote = not message and given is not None
        self.openai = self.openai or remote
        id = self.build.unique(f"L{row.line}", row.line)
        before, old = self.build.last, self.history
        if not (self._answer and message.endswith(self._answer) and self.turns.is_summary(before)):
            self.turns.step(id, self._line(row), row.at, self.model, self._mark("compact", remote))
        items = self._replaced(id, given, message) if given is not None else self._kept_by_098(id, message)
        summary = [block for item in items if item.state == "summary" for block in item.blocks]
        known = {item.id for item in old}
        self.build.add(
            CompactionBoundaryCreated(
                id=id,
                at=row.at,
                logical_parent=before,
                content=summary,
                kept=[item.id for item in items if item.id in known],
                tokens_before=next((s.usage.context for s in reversed(self.turns.steps) if s.usage and s.kind == "main"), 0),
                meta={"replacement_history": given, "message": message, "remote": remote},
            ),
            self._line(row),
        )
        self.build.last = self._boundary = id
        stay = {source for item in items for source in item.sources or (item.id,)}
        why = f"behind the compaction at line {row.line}"
        gone = {item.id: ("boundary", why) for item in old if item.id not in stay}
        self.left.append({**self.left[-1], **gone})
        self.epochs.append(items)
        self._context_open = False

    def _replaced(self, id: str, given: list[Json], message: str) -> list[Item]:
        """The items of a replacement history: kept messages under their own ids, the rest as the boundary's."""
        by_id = {item.id: item for item in self.history}
        by_text = {
            (item.role, plain(item.wire or {})): item for item in self.history if (item.wire or {}).get("type") == "message"
        }
        out: list[Item] = []
        for n, wire in enumerate(given):
            role, blocks = response_item(wire)
            text = plain(wire)
            kept = by_id.get(as_str(wire.get("id"))) or (by_text.get((role, text)) if "id" not in wire else None)
            if kept is not None:
                out.append(msgspec.structs.replace(kept, wire=wire, reason="kept by the compaction"))
                continue
            opaque = as_str(wire.get("type")) in ("compaction", "context_compaction", "compaction_summary")
            if opaque or (message and text == message) or text.startswith(SUMMARY_START):
                state, reason = (
                    "summary",
                    "the summary is encrypted: its text is in no file" if opaque else "summary of the compaction",
                )
            else:
                state, reason = "attachment", "put in anew by the compaction"
            out.append(Item(f"{id}:{n}", role, blocks, wire, "", state, reason, None, (id,)))
        return out

    def _kept_by_098(self, id: str, message: str) -> list[Item]:
        """History after a compaction without a replacement: context, the person's messages, the summary."""
        room, kept = KEPT_TOKENS, []
        for item in reversed(self.history):
            wire = item.wire or {}
            text = plain(wire)
            if item.role != "user" or wire.get("type") != "message" or item.state != "whole" or text.startswith(SUMMARY_START):
                continue
            size = -(-len(text.encode("utf-8", "replace")) // 4)
            if size > room:
                break
            room -= size
            kept.append(msgspec.structs.replace(item, reason="kept by the compaction"))
        wire = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": message}]}
        summary = Item(
            f"{id}:summary", "user", [text_block(message)], wire, "", "summary", "summary of the compaction", None, (id,)
        )
        return [*self._context, *reversed(kept), summary]

    def _rolled_back(self, row: Row) -> None:
        turns, old = as_int(row.payload.get("num_turns")), self.history
        cut = len(old)
        while turns and cut:
            cut -= 1
            wire = old[cut].wire or {}
            if old[cut].role == "user" and old[cut].state == "whole" and wire.get("type") in ("message", "agent_message"):
                turns -= 1
        self.epochs.append(old[:cut])
        gone = {item.id: ("branch", f"rolled back at line {row.line}") for item in old[cut:]}
        self.left.append({**self.left[-1], **gone})
        leaf = next((item.id for item in reversed(old[:cut]) if item.id in self.build.names), None)
        if self._boundary is not None and (leaf is None or self._index(leaf) < self._index(self._boundary)):
            leaf = self._boundary
        id = self.build.unique(f"L{row.line}", row.line)
        self.build.add(BranchSelected(id=id, at=row.at, leaf=leaf, reason="thread_rolled_back"), self._line(row))
        self.build.last = leaf

    # turns

    def _event(self, kind: str, payload: Json, id: str) -> None:
        if kind == "token_count":
            self.turns.token_count(as_dict(payload.get("info")))
        elif kind in ("task_started", "turn_aborted"):
            self._new_turn(aborted=kind == "turn_aborted")
            self.turns.turn()
        elif kind in ("item_completed", "exec_command_end"):
            item = as_dict(payload.get("item")) if kind == "item_completed" else payload
            if as_str(item.get("aggregated_output")):
                self.outputs[as_str(item.get("id")) or as_str(item.get("call_id"))] = id

    def _new_turn(self, aborted: bool) -> None:
        """When the words before a turn got no answer, a request was sent all the same.

        Not after an interrupt between a tool's output and the next request: that cannot be told.
        """
        if not self.turns.unanswered() or not self.history:
            return
        last = self.history[-1]
        message = (last.wire or {}).get("type") == "message"
        if last.role == "user" and last.state in ("whole", "preview") and (message or not aborted):
            at = self._index(last.id)
            self.turns.step(last.id, self.build.lines[at], self.build.events[at].at, self.model, self._mark())
            self.turns.open = False

    def _mark(self, kind: str = "main", remote: bool = False) -> Mark:
        return Mark(len(self.epochs) - 1, len(self.history), kind, remote)

    def _index(self, id: str) -> int:
        events = self.build.events
        return next((i for i in range(len(events) - 1, -1, -1) if events[i].id == id), 0)

    def _measured(self) -> bool:
        return (0, 98) <= self.version < (0, 172)

    # requests

    def view(self, step: int | None) -> View:
        """What a step was sent, or (None) what the next request would carry."""
        mark = self._mark() if step is None else self.turns.marks[step - 1]
        items = repaired(self.epochs[mark.epoch][: mark.count], mark.kind, self.outputs)
        unknown = ["tool schemas"]
        if mark.kind == "compact":
            items.append(compaction_request(mark.remote))
        body: Json = {"model": self.model} if step is None else {"model": self.turns.steps[step - 1].model}
        first: list[Json] = []
        if self.base and not self.logged_base:
            if self.version >= BASE_IN_INPUT:
                first = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": self.base}]}]
                unknown.append(
                    "which passages of the logged base instructions were left out because their tool was not offered"
                )
            else:
                body["instructions"] = self.base
        elif not self.logged_base:
            unknown.append("base instructions")
        if not self._measured():
            unknown.append("whether this version follows the rules that were measured on 0.98.0 and 0.171.0")
        body["input"] = first + [on_the_wire(item.wire, self.openai) for item in items if item.wire is not None]
        system = [text_block(self.base)] if self.base else None
        return View(items, system, None, tuple(unknown), self.left[mark.epoch], body)

    def leaf(self) -> Leaf:
        """The newest item that no rollback dropped."""
        record = self.build.last
        events, lines = self.build.events, self.build.lines
        last = next((i for i in range(len(events) - 1, -1, -1) if isinstance(events[i], MessageAppended)), None)
        other: tuple[Leaf, ...] = ()
        if last is not None and events[last].id != record and not isinstance(events[last], CompactionBoundaryCreated):
            other = (Leaf(events[last].id, lines[last], "last-item-in-file"),)
        return Leaf(record, lines[self._index(record)] if record else None, "newest-item-not-rolled-back", other)
