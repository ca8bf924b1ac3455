"""A pi session file as a tree of entries, and what each of them says to the model.

Knows: the three file versions, the links between entries, and the text of each kind of entry. Does
not know which entries a request held (`context`).

Version 1 is a list; from version 2 on each entry names its parent and a file is a tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...history.events import Block, CompactionBoundaryCreated, Event, ForeignRow, MessageAppended, Usage
from ..calls import Builder, Item
from ..common import Json, as_dict, as_int, as_list, as_str, text_block
from ..words import tool_result, tool_use

SUMMARY = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"
"""The words around a summary, as captured from 0.73.1 and 1.6.0 (branches: as its source has them)."""


NOTED = ("firstKeptEntryId", "firstKeptEntryIndex", "fromHook", "details")
"""What a boundary's event keeps of its entry."""


class Entry(NamedTuple):
    """One line: its event's id, its parent's, its kind ("message", "compaction", …), its own data and its line."""

    id: str
    parent: str | None
    kind: str
    data: Json
    line: int
    role: str = ""


class Tree:
    """Entries by event id in file order, with the events made of them."""

    def __init__(self) -> None:
        self.build = Builder()
        self.entries: dict[str, Entry] = {}
        self.said: dict[str, tuple[Item | None, str]] = {}
        """what each entry says, once it was asked for: a session of 900 entries has 450 requests"""
        self._named: dict[str, str] = {}
        self._last: str | None = None

    def add(self, line: int, data: Json) -> None:
        """Take one line."""
        kind = as_str(data.get("type")) or "unknown"
        raw = as_str(data.get("id"))
        if kind == "session":
            id = self.build.unique(raw or "session", line)
            self.build.add(ForeignRow(id=id, at=as_str(data.get("timestamp")), kind="session", data=data), line)
            return
        id = self.build.unique(raw or f"L{line}", line)
        linked = "parentId" in data
        parent = data.get("parentId")
        up = self._named.get(parent, parent) if isinstance(parent, str) else None
        entry = Entry(id, up if linked else self._last, kind, data, line, as_str(as_dict(data.get("message")).get("role")))
        self.build.add(self._event(entry), line)
        self.entries[id] = entry
        if raw:
            self._named[raw] = id
        self._last = id

    def _event(self, entry: Entry) -> Event:
        at = as_str(entry.data.get("timestamp"))
        message = as_dict(entry.data.get("message"))
        if entry.kind == "compaction":
            return CompactionBoundaryCreated(
                id=entry.id,
                at=at,
                logical_parent=entry.parent,
                content=[text_block(summary_text(entry))],
                tokens_before=as_int(entry.data.get("tokensBefore")),
                meta={
                    key: entry.data[key] for key in ("firstKeptEntryId", "firstKeptEntryIndex", "fromHook") if key in entry.data
                },
            )
        if entry.kind != "message":
            return ForeignRow(id=entry.id, at=at, kind=entry.kind, parent=entry.parent, data=entry.data)
        role, blocks = said(message)
        meta: dict[str, Any] = {"role": entry.role}
        if as_str(message.get("stopReason")):
            meta["stop_reason"] = message["stopReason"]
        return MessageAppended(
            id=entry.id,
            at=at,
            parent=entry.parent,
            role=role,
            content=blocks,
            origin={"assistant": "model", "toolResult": "tool", "user": "person"}.get(entry.role, "nova"),
            group=as_str(message.get("responseId")) or None,
            model=as_str(message.get("model")) or None,
            usage=usage_of(message) if role == "assistant" else None,
            meta=meta,
        )

    def path(self, leaf: str | None) -> list[Entry]:
        """Entries from the root to the leaf; a missing parent or a cycle ends it."""
        out: list[Entry] = []
        seen: set[str] = set()
        while leaf is not None and leaf in self.entries and leaf not in seen:
            seen.add(leaf)
            out.append(self.entries[leaf])
            leaf = out[-1].parent
        return out[::-1]

    def named(self, id: Any) -> str | None:
        """The event id of an entry that the file calls by this id."""
        return self._named.get(id) if isinstance(id, str) else None


def usage_of(data: Json) -> Usage | None:
    """pi's counts keep the cache apart from the input."""
    raw = as_dict(data.get("usage"))
    counts = [as_int(raw.get(key)) for key in ("input", "output", "cacheRead", "cacheWrite")]
    return Usage(*counts) if any(counts) else None


def said(message: Json) -> tuple[str, list[Block]]:
    """Role and neutral blocks of a message entry."""
    role, content = as_str(message.get("role")), message.get("content")
    if role == "assistant":
        return "assistant", [block for part in as_list(content) if (block := _assistant(as_dict(part))) is not None]
    if role == "toolResult":
        return "user", [tool_result(message.get("toolCallId"), result(content), message.get("isError") is True)]
    if role == "system":
        sections = [value for value in as_dict(message.get("sections")).values() if isinstance(value, str)]
        return "system", [text_block("\n\n".join([text for text in [as_str(content), *sections] if text]))]
    if role == "bashExecution":
        return "user", [text_block(_ran(message))]
    if role in ("branchSummary", "compactionSummary"):
        words = BRANCH if role == "branchSummary" else SUMMARY
        return "user", [text_block(words.format(as_str(message.get("summary"))))]
    return "user", _parts(content)


def _parts(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [text_block(content)]
    out: list[Block] = []
    for part in as_list(content):
        part = as_dict(part)
        if part.get("type") == "image":
            source = {"type": "base64", "media_type": as_str(part.get("mimeType")), "data": as_str(part.get("data"))}
            out.append({"type": "image", "source": source})
        else:
            out.append(text_block(as_str(part.get("text"))))
    return out


def _assistant(part: Json) -> Block | None:
    kind = part.get("type")
    if kind == "text":
        return text_block(as_str(part.get("text"))) if as_str(part.get("text")).strip() else None
    if kind == "thinking":
        signature = as_str(part.get("thinkingSignature"))
        return {"type": "thinking", "thinking": as_str(part.get("thinking")), **({"signature": signature} if signature else {})}
    if kind == "toolCall":
        return tool_use(part.get("id"), part.get("name"), part.get("arguments"))
    return part or None


def result(content: Any) -> str | list[Block]:
    """A tool's content: one text where it is all text."""
    blocks = _parts(content)
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _ran(message: Json) -> str:
    """A command that the person ran in the chat, as text."""
    output = as_str(message.get("output"))
    text = f"Ran `{as_str(message.get('command'))}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code = message.get("exitCode")
    return f"{text}\n\nCommand exited with code {code}" if isinstance(code, int) and code else text


def summary_text(entry: Entry) -> str:
    """A compaction's summary in the words it is sent in."""
    return SUMMARY.format(as_str(entry.data.get("summary")))
