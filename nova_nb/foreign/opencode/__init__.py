"""Reading rules of opencode: a database, a folder of JSON files, an export, or a stream of bus events.

Knows: which session of a store is meant, how its messages become events, and where model calls are.
`stores` reads, `context` chooses, `wire` words; docs/formats/opencode.md tells it all.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from ...errors import NotASession, SessionNotFound
from ...history.events import CompactionBoundaryCreated, ForeignRow, MessageAppended, Usage
from ...history.log import Log
from ...ids import iso
from ..base import Leaf, SessionInfo, Step
from ..calls import Builder, Calls, Item, View, body, conversation, leaf, project, reachable, shown, steps
from ..common import Json, as_dict, as_int, as_list, as_str, text_block, version_of
from .context import Reader, as_conversation, asks_for_summary, is_summary, visible
from .stores import Message, Stored, is_store, load, sessions
from .wire import body_of

__all__ = [
    "body", "conversation", "leaf", "list_sessions", "name", "project", "reachable", "read", "shown", "sniff", "steps",
]  # fmt: skip

name = "opencode"

OLD = (1, 1)
"""Versions below read as 1.0.0 did, others as 1.18.33; where between the rules changed is not known."""

MEASURED = ("1.0.", "1.18.")
SUMMARY_PROMPT = (
    "Provide a detailed but concise summary of our conversation above. Focus on information that would be helpful for "
    "continuing the conversation, including what we did, what we're doing, which files we're working on, and what we're "
    "going to do next."
)
"""What ended a compaction request of 1.0.0: in no file, taken from captured requests (opencode is MIT)."""


def sniff(path: Path, head: bytes) -> bool:
    return is_store(path, head)


def list_sessions(path: Path) -> list[SessionInfo]:
    return [
        SessionInfo(str(path), name, stored.id, as_str(stored.info.get("title")), stored.updated, stored.size, stored.parent)
        for stored in sessions(path)
    ]


def read(path: Path, session_id: str | None = None) -> Log:
    stored = load(_pick(path, sessions(path), session_id))
    return Opened(path, stored).log()


def _pick(path: Path, found: list[Stored], session_id: str | None) -> Stored:
    if not found:
        raise NotASession(f"{path}: the store holds no session")
    if session_id is not None:
        match = next((stored for stored in found if stored.id == session_id), None)
        if match is None:
            near = ", ".join(sorted(stored.id for stored in found)[:5])
            raise SessionNotFound(f"{path}: there is no session {session_id!r}; there are {near}")
        return match
    roots = [stored for stored in found if stored.parent is None] or found
    return max(roots, key=lambda stored: (stored.updated, stored.id))


def usage_of(info: Json) -> Usage | None:
    """opencode's counts keep the cache apart from the input."""
    tokens = as_dict(info.get("tokens"))
    cache = as_dict(tokens.get("cache"))
    counts = [as_int(v) for v in (tokens.get("input"), tokens.get("output"), cache.get("read"), cache.get("write"))]
    return Usage(*counts) if any(counts) else None


class Opened:
    """A session with what its rules need."""

    def __init__(self, path: Path, stored: Stored) -> None:
        self.path = path
        self.stored = stored
        self.version = as_str(stored.info.get("version"))
        self.old = () < version_of(self.version) < OLD
        self.build = Builder()
        self.build.damage = stored.damage
        revert = as_str(as_dict(stored.info.get("revert")).get("messageID"))
        cut = next((i for i, message in enumerate(stored.messages) if revert and message.id == revert), None)
        self.live = stored.messages if cut is None else stored.messages[:cut]
        self.hidden = [] if cut is None else stored.messages[cut:]

    def log(self) -> Log:
        for message in self.stored.messages:
            self._add(message)
        found = [m for m in self.stored.messages if m.info.get("role") == "assistant" and not self._copied(m)]
        basis = "rebuilt" if self.version.startswith(MEASURED) else "partial"
        taken = [
            Step(
                n, "compact" if m.info.get("summary") is True else "main", usage_of(m.info), self._basis(m, basis), m.id, m.line,
                _iso(m), as_str(m.info.get("modelID")) or None,
            )
            for n, m in enumerate(found, 1)
        ]  # fmt: skip

        @lru_cache(maxsize=1)  # a request asks for its pieces and for its body
        def view(step: int | None) -> View:
            return self._view(None if step is None else found[step - 1])

        last = self.live[-1] if self.live else None
        other = (Leaf(self.hidden[-1].id, self.hidden[-1].line, "newest-message"),) if self.hidden else ()
        leaf = Leaf(last.id if last else None, last.line if last else None, "newest-message-not-reverted", other)
        native = Calls(tuple(taken), view, leaf, self._reachable, self._shown())
        return self.build.log(self.path, name, native, self.stored.size, self.version or None, self.stored.id)

    def _copied(self, message: Message) -> bool:
        """A fork holds its parent's messages under new ids and with their old times: they were no calls of its own."""
        return 0 < message.created < as_int(as_dict(self.stored.info.get("time")).get("created"))

    def _basis(self, message: Message, basis: str) -> str:
        return "partial" if message.info.get("summary") is True and not self.old else basis

    def _add(self, message: Message) -> None:
        reader = Reader(False, None)
        at, line = _iso(message), message.line
        if is_summary(message):
            text = [text_block(as_str(p.get("text"))) for p in message.parts if p.get("type") == "text"]
            before = self.build.last
            id = self.build.unique(message.id, line)
            self.build.add(CompactionBoundaryCreated(id=id, at=at, logical_parent=before, content=text), line)
            self.build.last = id
            return
        if asks_for_summary(message):
            id = self.build.unique(message.id, line)
            auto = next((part for part in message.parts if part.get("type") == "compaction"), {})
            self.build.add(ForeignRow(id=id, at=at, kind="compaction", parent=self.build.last, data=auto), line)
            return
        shown = message if not message.info.get("error") else Message({**message.info, "error": None}, message.parts, line)
        items = reader.items([shown])
        meta: Json = {}
        if message.info.get("error"):
            meta["error"] = message.info["error"]
        if any(item.state == "reminder" for item in items):
            meta["synthetic"] = True
        if not items:
            items = [Item(message.id, as_str(message.info.get("role")) or "user", [])]
        for item in items:
            assistant = item.role == "assistant"
            self.build.message(
                item.id,
                line,
                item.role,
                item.blocks,
                at=at,
                group=message.id if assistant else None,
                model=as_str(message.info.get("modelID")) or None if assistant else None,
                usage=usage_of(message.info) if assistant else None,
                meta=meta if item.id == message.id else {"message": message.id},
            )

    def _reachable(self, leaf: str | None) -> list[str]:
        ids = {message.id for message in self.live}
        events = [e for e in self.build.events if isinstance(e, MessageAppended)]
        own = [e.id for e in events if (e.meta.get("message") or e.id) in ids]
        at = next((i for i, id in enumerate(own) if id == leaf), None)
        if leaf is not None and at is None:
            own = [e.id for e in events]
            at = next((i for i, id in enumerate(own) if id == leaf), None)
        return own if at is None else own[: at + 1]

    def _shown(self) -> list[str]:
        made = {e.id for e in self.build.events if isinstance(e, MessageAppended) and e.meta.get("synthetic")}
        return [id for id in self._reachable(None) if id not in made]

    def _view(self, answer: Message | None) -> View:
        before = self.live
        if answer is not None:
            before = self.stored.messages[: self.stored.messages.index(answer)]
        compacting = answer is not None and answer.info.get("summary") is True
        if compacting and not self.old:
            return self._summary_view(before, answer)
        messages, summary = visible(before)
        reader = Reader(self.old, answer.created if answer else None)
        items = reader.items(messages)
        if compacting:
            items.append(
                Item("summary-request", "user", [text_block(SUMMARY_PROMPT)], None, "", "reminder", "known from captures")
            )
        left = dict(reader.left)
        if summary is not None:
            kept = {message.id for message in messages}
            left |= {m.id: ("boundary", f"behind the summary in row {summary.line}") for m in before if m.id not in kept}
        if answer is None:
            left |= {m.id: ("branch", "reverted: the next prompt deletes it") for m in self.hidden}
        return self._worded(answer, items, left)

    def _summary_view(self, before: list[Message], answer: Message | None) -> View:
        """A request of 1.18 for a summary: the conversation as one text. What it asks for is in no file."""
        question = before[-1] if before and asks_for_summary(before[-1]) else None
        rest = before[:-1] if question is not None else before
        messages, older = visible(rest)
        messages = [m for m in messages if not is_summary(m) and not asks_for_summary(m)]
        if question is not None and any(part.get("overflow") is True for part in question.parts):
            last = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].info.get("role") == "user"), len(messages))
            messages = messages[:last]
        text = f"Here is the conversation so far:\n\n<conversation>\n{as_conversation(messages)}\n</conversation>"
        if older is not None:
            said = "".join(as_str(p.get("text")) for p in older.parts if p.get("type") == "text")
            text += f"\n\nHere is the summary of the conversation before the <conversation> above:\n\n<prior-summary>\n{said}\n</prior-summary>"
        sources = tuple(m.id for m in messages)
        item = Item("summary-request", "user", [text_block(text)], None, "", "whole", "the conversation as text", None, sources)
        return self._worded(answer, [item], {}, ("the instructions after the conversation",))

    def _worded(
        self, answer: Message | None, items: list[Item], left: dict[str, tuple[str, str]], more: tuple[str, ...] = ()
    ) -> View:
        info = answer.info if answer is not None else self._speaker()
        system = [text for text in as_list(info.get("system")) if isinstance(text, str)]
        unknown = ("tool schemas", *([] if system else ["system prompt"]), *more)
        if not self.version.startswith(MEASURED):
            unknown += (f"whether version {self.version or '(not stated)'} follows the rules measured on 1.0.0 and 1.18.33",)
        provider, model = as_str(info.get("providerID")), as_str(info.get("modelID")) or None
        blocks = [text_block(text) for text in system] or None
        return View(items, blocks, None, unknown, left, partial(body_of, provider, model, items, system, self.old))

    def _speaker(self) -> Json:
        return next((m.info for m in reversed(self.live) if m.info.get("role") == "assistant"), {})


def _iso(message: Message) -> str:
    return iso(message.created / 1000) if 0 < message.created < 4e12 else ""
