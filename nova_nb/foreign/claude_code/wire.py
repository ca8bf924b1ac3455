"""From the rows of a branch to the messages that Claude Code sends.

Knows: how each row is worded in a request, version by version. Does not know which rows belong
to a branch (`chain`). The order of the rules is the order in which they are applied:

1. rows that are no messages give nothing, except attachments, which give what `rendered` holds;
2. error texts of the client and messages that a refusal took back are left out;
3. reminders move up to the start of their turn: behind an answer or a result, before the prompt;
4. neighbouring user rows are one message, rows of one `message.id` are one answer;
5. results follow the calls they answer, each once; a call without a result is not sent;
6. reminders behind a result become part of its text (2.1), except those marked to stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...history.events import Block, Event, ForeignRow, MessageAppended
from ...projection.pieces import Piece, Projection, block_chars
from .schema import blocks
from .unwritten import text_of, unseen

CLEARED = "[Old tool result content cleared]"
"""What stands for a result after micro-compaction (2.1.17, two boundaries checked against usage)."""

PERSISTED = "<persisted-output>"


@dataclass(slots=True)
class Part:
    """A block on its way to the wire."""

    block: Block
    sources: tuple[str, ...]
    state: str = "whole"
    reason: str = ""
    original: str | None = None
    beside: bool = False
    """a reminder that never becomes part of a result's text"""


@dataclass(slots=True)
class Turn:
    """Blocks that will be one message. `key` is the id of the row or answer it began with; `results` counts the
    results at its front."""

    role: str
    key: str
    parts: list[Part] = field(default_factory=list)
    results: int = 0

    def add(self, parts: list[Part]) -> Turn:
        """A further user row of the message: its results go to the front, and a line end between neighbouring texts."""
        if self.parts and parts and self.parts[-1].block.get("type") == "text" == parts[0].block.get("type"):
            last = self.parts[-1]
            last.block = {**last.block, "text": f"{last.block.get('text')}\n"}
        results = [part for part in parts if part.block.get("type") == "tool_result"]
        self.parts[self.results : self.results] = results
        self.results += len(results)
        self.parts += [part for part in parts if part.block.get("type") != "tool_result"] if results else parts
        return self


def project(events: Iterable[Event]) -> Projection:
    """The pieces of a request made of these rows, in this order."""
    left: dict[str, tuple[str, str]] = {}
    events = list(events)
    turns = _turns(_sent(events, left), _cleared(events))
    turns = _paired(turns, left)
    turns = _folded(turns)
    return Projection(_pieces(turns), unknown=(), left=left)


NO_ANSWER = "No response requested."
"""The client's own answer to a prompt that was cut off: sent like any other (2.0.77, 2.1.332)."""


def _sent(events: list[Event], left: dict[str, tuple[str, str]]) -> list[Event]:
    """The rows without those that are never sent, with the reason for each."""
    retracted: set[Any] = set()
    for event in events:
        if isinstance(event, ForeignRow) and isinstance(event.data, dict):
            ids = event.data.get("retractedMessageUuids")
            retracted.update(id for id in ids if isinstance(id, str)) if isinstance(ids, list) else None
    out = []
    for event in events:
        if event.id in retracted:
            left[event.id] = ("provider", "taken back when the model refused")
        elif isinstance(event, MessageAppended) and event.meta.get("api_error") and _texts(event) != [NO_ANSWER]:
            left[event.id] = ("projection", "an error text of the client, shown and not sent")
        else:
            out.append(event)
    return out


def _texts(event: MessageAppended) -> list[Any]:
    return [block.get("text") for block in event.content]


def _cleared(events: Iterable[Event]) -> frozenset[str]:
    """Calls whose results the micro-compactions among these rows cleared."""
    found: set[str] = set()
    for event in events:
        if isinstance(event, ForeignRow) and event.kind == "system/microcompact_boundary" and isinstance(event.data, dict):
            about = event.data.get("microcompactMetadata")
            ids = about.get("compactedToolIds") if isinstance(about, dict) else None
            found.update(id for id in ids if isinstance(id, str)) if isinstance(ids, list) else None
    return frozenset(found)


def _turns(events: Iterable[Event], cleared: frozenset[str]) -> list[Turn]:
    turns: list[Turn] = []
    answers: dict[str, Turn] = {}
    for event in _reminders_first(events):
        if isinstance(event, ForeignRow):
            parts = reminder_parts(event)
            # Behind another user row every item joins it; at the start of a turn each is a message of its own.
            if turns and turns[-1].role == "user":
                turns[-1].parts += parts
            else:
                turns += [Turn("user", f"{event.id}/{n}" if n else event.id, [part]) for n, part in enumerate(parts)]
            continue
        parts = [part_of(event, block, cleared) for block in event.content]
        if event.role == "user":
            if turns and turns[-1].role == "user":
                turns[-1].add(parts)
            else:
                turns.append(Turn("user", event.id).add(parts))
        elif event.group in answers:
            answers[event.group].parts += parts
        else:
            turns.append(Turn("assistant", event.group or event.id, parts))
            if event.group is not None:
                answers[event.group] = turns[-1]
    return turns


def _reminders_first(events: Iterable[Event]) -> list[MessageAppended | ForeignRow]:
    """Messages and attachments, each attachment moved up to the start of its turn: behind the answer or result before it."""
    out: list[MessageAppended | ForeignRow] = []
    start = 0
    for event in events:
        if isinstance(event, MessageAppended):
            out.append(event)
            if event.role == "assistant" or any(block.get("type") == "tool_result" for block in event.content):
                start = len(out)
        elif isinstance(event, ForeignRow) and event.kind.startswith("attachment/"):
            out.insert(start, event)
            start += 1
    return out


def part_of(event: MessageAppended, block: Block, cleared: frozenset[str]) -> Part:
    """One block of a row, with what is known of how it differs from the whole."""
    sources = (event.id,)
    if event.meta.get("summary"):
        return Part(block, sources, "summary", "compaction")
    if block.get("type") == "tool_result":
        if block.get("tool_use_id") in cleared:
            return Part({**block, "content": CLEARED}, sources, "placeholder", "cleared by micro-compaction", event.id)
        text = result_text(block)
        if text.startswith(PERSISTED):
            return Part(block, sources, "preview", "output too large, written to a file", spilled_to(text))
    if event.meta.get("hidden"):
        beside = not str(block.get("text")).startswith("<system-reminder>")
        return Part(block, sources, "reminder", "put in by the harness, hidden on screen", beside=beside)
    return Part(block, sources)


def result_text(block: Block) -> str:
    """The text of a result, whether it is a string or a list of blocks."""
    content = block.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))


def spilled_to(text: str) -> str | None:
    """The path in a preview's first lines.

    >>> spilled_to("<persisted-output>\\nOutput too large (67KB). Full output saved to: /a/b.txt\\n\\nPreview")
    '/a/b.txt'
    """
    _, mark, rest = text[:2000].partition("saved to: ")
    return rest.partition("\n")[0].strip() or None if mark else None


def reminder_parts(event: ForeignRow) -> list[Part]:
    """What an attachment row put into the request, as far as the file holds it (`rendered`, since 2.1.2xx)."""
    data = event.data if isinstance(event.data, dict) else {}
    rendered = data.get("rendered")
    kind = event.kind.removeprefix("attachment/")
    if not isinstance(rendered, list):
        about = data.get("attachment")
        text = "" if unseen(kind, about) else text_of(about)
        reason = f"{kind}: the text it is about; the words around it are not in the file"
        return [Part({"type": "text", "text": text}, (event.id,), "reminder", reason)] if text else []
    beside = data.get("renderedBesideToolResult") is True
    items = [item.get("content") for item in rendered if isinstance(item, dict)]
    return [Part(block, (event.id,), "reminder", kind, beside=beside) for item in items for block in blocks(item)]


def _paired(turns: list[Turn], left: dict[str, tuple[str, str]]) -> list[Turn]:
    """Calls and results matched: a second result of a call, a result without its call, a call without a result go."""
    answered = {
        p.block.get("tool_use_id") for t in turns if t.role == "user" for p in t.parts if p.block.get("type") == "tool_result"
    }
    called: set[Any] = set()
    given: set[Any] = set()
    out: list[Turn] = []
    for turn in turns:
        keep: list[Part] = []
        for part in turn.parts:
            kind = part.block.get("type")
            if kind == "tool_use":
                id = part.block.get("id")
                if id in called:
                    _leave(left, part, "pairing", "a call with this id came before")
                    continue
                if id not in answered:
                    _leave(left, part, "pairing", "the call has no result, so it is not sent")
                    continue
                called.add(id)
            elif kind == "tool_result":
                id = part.block.get("tool_use_id")
                if id in given:
                    _leave(left, part, "pairing", "the call already has a result")
                    continue
                if id not in called:
                    _leave(left, part, "pairing", "the call it answers is not in the request")
                    continue
                given.add(id)
            keep.append(part)
        if keep:
            out.append(Turn(turn.role, turn.key, keep))
    return out


def _leave(left: dict[str, tuple[str, str]], part: Part, layer: str, why: str) -> None:
    for source in part.sources:
        left.setdefault(source, (layer, why))


def _folded(turns: list[Turn]) -> list[Turn]:
    """Reminders behind a result become part of its text."""
    for turn in turns:
        if not any(part.state == "reminder" for part in turn.parts):
            continue
        parts: list[Part] = []
        texts: list[str] = []
        for part in turn.parts:
            text = part.block.get("text")
            if (
                part.state == "reminder"
                and not part.beside
                and parts
                and parts[-1].block.get("type") == "tool_result"
                and isinstance(text, str)
            ):
                texts.append(text)
                parts[-1].sources += part.sources
            else:
                _fold(parts, texts)
                parts.append(part)
        _fold(parts, texts)
        turn.parts = parts
    return turns


def _fold(parts: list[Part], texts: list[str]) -> None:
    """Put the texts into the last part, a result, and forget them."""
    if not texts:
        return
    block = parts[-1].block
    content = block.get("content")
    if isinstance(content, list):
        listed = [*content, *({"type": "text", "text": text} for text in texts)]
        for n in range(max(len(content) - 1, 0), len(listed) - 1):  # a text that another one follows ends its line
            if isinstance(listed[n], dict) and listed[n].get("type") == "text":
                listed[n] = {**listed[n], "text": f"{listed[n].get('text')}\n"}
        parts[-1].block = {**block, "content": listed}
    else:
        pieces = [text.strip() for text in (content if isinstance(content, str) else "", *texts)]
        parts[-1].block = {**block, "content": "\n\n".join(piece for piece in pieces if piece)}
    texts.clear()


def _pieces(turns: list[Turn]) -> list[Piece]:
    pieces = []
    for turn in turns:
        for n, part in enumerate(turn.parts):
            key = f"{turn.key}:{n}"
            pieces.append(
                Piece(
                    key,
                    turn.key,
                    turn.role,
                    part.block,
                    part.sources,
                    part.state,
                    part.reason,
                    block_chars(part.block),
                    part.original,
                )
            )
    return pieces
