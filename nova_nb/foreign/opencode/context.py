"""What an opencode request held: which messages, and what each part says.

Knows: the rules of 1.18.33 and 1.0.0, both measured (docs/formats/opencode.md). Does not know where
messages are stored (`stores`) nor a provider's words (`wire`).

- from the newest finished summary on. 1.18: its question ("What did we do so far?") and the summary,
  then what follows; 1.0: the summary, then what follows.
- a tool part that was pruned says so; one that was cut off says so on the wire (1.18) or is left out (1.0).
"""

from __future__ import annotations

from ...history.events import Block
from ..calls import Item
from ..common import Json, as_dict, as_int, as_list, as_str, text_block
from ..words import compact, tool_result, tool_use
from .stores import Message

QUESTION = "What did we do so far?"
PRUNED = "[Old tool result content cleared]"
INTERRUPTED = "[Tool execution was interrupted]"
SAVED = "Full output saved to: "
RESULT_CHARS = 2_000
"""How much of a result goes into the text that a compaction summarises (1.18)."""


def is_summary(message: Message) -> bool:
    """Whether an answer is the finished summary of a compaction."""
    info = message.info
    return info.get("role") == "assistant" and info.get("summary") is True and not info.get("error")


def asks_for_summary(message: Message) -> bool:
    return any(part.get("type") == "compaction" for part in message.parts)


def visible(messages: list[Message]) -> tuple[list[Message], Message | None]:
    """The messages that a request is made of, and the summary that stands for those before them."""
    by_id = {message.id: message for message in messages}
    for i in range(len(messages) - 1, -1, -1):
        summary = messages[i]
        if not is_summary(summary):
            continue
        question = by_id.get(as_str(summary.info.get("parentID")))
        if question is None or not asks_for_summary(question):
            return messages[i:], summary
        if not summary.info.get("finish"):
            continue
        start = next(n for n, message in enumerate(messages) if message.id == question.id)
        tail = next((as_str(part.get("tail_start_id")) for part in question.parts if part.get("tail_start_id")), "")
        kept = next((n for n, message in enumerate(messages) if message.id == tail), start)
        return messages[min(kept, start) :], summary
    return messages, None


class Reader:
    """Items of messages as of a moment; `old` reads as 1.0 did. `now` is in milliseconds, None for the next request."""

    def __init__(self, old: bool, now: int | None) -> None:
        self.old = old
        self.now = now
        self.left: dict[str, tuple[str, str]] = {}

    def items(self, messages: list[Message]) -> list[Item]:
        out: list[Item] = []
        for message in messages:
            out += self.user(message) if message.info.get("role") == "user" else self.assistant(message)
        return out

    def user(self, message: Message) -> list[Item]:
        blocks: list[Block] = []
        made = asked = False
        for part in message.parts:
            kind = part.get("type")
            if kind == "text" and not part.get("ignored"):
                blocks.append(text_block(as_str(part.get("text"))))
                made = made or part.get("synthetic") is True
            elif kind == "compaction":
                blocks.append(text_block(QUESTION))
                asked = True
            elif kind == "subtask":
                blocks.append(text_block("The following tool was executed by the user"))
                made = True
            elif kind == "file" and as_str(part.get("mime")) not in ("text/plain", "application/x-directory"):
                blocks.append({"type": "image" if as_str(part.get("mime")).startswith("image/") else "file", **_file(part)})
        if not blocks:
            return []
        state, reason = ("reminder", "put in by opencode") if made or asked else ("whole", "")
        return [Item(message.id, "user", blocks, None, "", state, reason)]

    def assistant(self, message: Message) -> list[Item]:
        error = as_dict(message.info.get("error"))
        said = [part for part in message.parts if part.get("type") not in ("step-start", "reasoning")]
        if error and not (error.get("name") == "MessageAbortedError" and said):
            self.left[message.id] = (
                "projection",
                f"the answer ended as {as_str(error.get('name')) or 'an error'}: it is not sent again",
            )
            return []
        blocks: list[Block] = []
        results: list[Item] = []
        for part in message.parts:
            kind, text = part.get("type"), as_str(part.get("text"))
            if kind == "text" and (text or not self.old):
                blocks.append(text_block(text))
            elif kind == "reasoning" and not self.old:
                blocks.append({"type": "thinking", "thinking": text})
            elif kind == "tool":
                state = as_dict(part.get("state"))
                if self.old and as_str(state.get("status")) in ("pending", "running"):
                    self.left[as_str(part.get("id"))] = ("pairing", "cut off before its result: 1.0 leaves such calls out")
                    continue
                blocks.append(tool_use(part.get("callID"), part.get("tool"), state.get("input")))
                results.append(self.result(message, part, state))
        summary = is_summary(message)
        if not blocks:
            return []
        first = Item(message.id, "assistant", blocks, None, "", *(("summary", "compaction") if summary else ("whole", "")))
        return [first, *results]

    def result(self, message: Message, part: Json, state: Json) -> Item:
        status, output = as_str(state.get("status")), as_str(state.get("output"))
        pruned = as_int(as_dict(state.get("time")).get("compacted"))
        id, call = as_str(part.get("id")) or f"{message.id}:{as_str(part.get('callID'))}", part.get("callID")
        batch = f"{message.id}:results"
        if status in ("pending", "running"):
            why = "the call has no result in the store: it was cut off"
            return Item(id, "user", [tool_result(call, INTERRUPTED, True)], None, batch, "repair", why)
        if status == "error":
            return Item(
                id, "user", [tool_result(call, as_str(state.get("error")) or compact(state.get("error")), True)], None, batch
            )
        if pruned and (self.now is None or pruned <= self.now):
            return Item(
                id,
                "user",
                [tool_result(call, PRUNED)],
                None,
                batch,
                "placeholder",
                "pruned by opencode; the text stays stored",
                id,
            )
        files = [{"type": "file", **_file(as_dict(file))} for file in as_list(state.get("attachments"))]
        content = [text_block(output), *files] if files else output
        block = tool_result(call, content)
        if as_dict(state.get("metadata")).get("truncated") is True or SAVED in output[:400]:
            saved = output.partition(SAVED)[2].partition("\n")[0].strip() or as_str(
                as_dict(state.get("metadata")).get("outputPath")
            )
            return Item(id, "user", [block], None, batch, "preview", "cut by the tool", saved or None)
        if self.old and output.endswith("(Output was truncated due to length limit)"):
            return Item(id, "user", [block], None, batch, "preview", "cut by the tool; the rest is in no file")
        return Item(id, "user", [block], None, batch)


def _file(part: Json) -> Json:
    return {"mime": as_str(part.get("mime")), "filename": as_str(part.get("filename")), "url": as_str(part.get("url"))}


def as_conversation(messages: list[Message]) -> str:
    """Messages as the text that a compaction asks a summary of (1.18)."""
    out = []
    for message in messages:
        lines: list[str] = []
        user = message.info.get("role") == "user"
        for part in message.parts:
            kind, text = part.get("type"), as_str(part.get("text"))
            if kind == "text" and text and not part.get("ignored"):
                lines.append(f"[{'User' if user else 'Assistant'}]: {text}")
            elif kind == "reasoning" and text:
                lines.append(f"[Assistant reasoning]: {text}")
            elif kind == "tool":
                state = as_dict(part.get("state"))
                lines.append(f"[Assistant tool call]: {as_str(part.get('tool'))}({compact(state.get('input'))})")
                result = as_str(state.get("output")) or as_str(state.get("error"))
                pruned = as_int(as_dict(state.get("time")).get("compacted"))
                result = PRUNED if pruned else result
                cut = f"{result[:RESULT_CHARS]}\n[truncated]" if len(result) > RESULT_CHARS else result
                lines.append(f"[Tool result]: {cut}")
        if lines:
            out.append("\n".join(lines))
    return "\n\n".join(out)
