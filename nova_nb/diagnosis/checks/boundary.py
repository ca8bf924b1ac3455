"""Layer "boundary": a compaction, what it says, and what it links to.

Knows: the shapes of a failed summary and of broken boundary links. A boundary without a parent and
rows above it that no request carries are how compaction works, no fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...history.events import CompactionBoundaryCreated
from ...history.log import record_id
from ..facts import Facts
from ..report import Finding, many
from .branch import LINKED

ERROR = re.compile(
    r"^\W*(api error|error\b|request failed|failed to|fetch failed|connection (error|refused|reset)|timed? ?out|request timed out|"
    r"prompt is too long|credit balance|invalid api key|invalid x-api-key|overloaded|rate limit|internal server error|"
    r"unauthorized|forbidden|exception\b|traceback)"
    r"|\"type\"\s*:\s*\"error\"|\b(authentication|overloaded|rate_limit|invalid_request|api)_error\b",
    re.IGNORECASE,
)
"""How a request's failure reads when its text is taken for an answer."""

SHORT = 600
"""Characters: a longer text that mentions an error is a summary that mentions an error."""

PREFACE = re.compile(
    r"^This session is being continued from a previous conversation[^.\n]*\.?\s*(?:The (?:summary below|conversation is)[^.:\n]*[.:]?\s*)?"
)


def dangling_logical_parent(facts: Facts) -> Iterator[Finding]:
    """A boundary's recorded predecessor is in no row although there is history before it."""
    for b in facts.boundaries:
        event = facts.events[b]
        if not isinstance(event, CompactionBoundaryCreated) or event.logical_parent is None:
            continue
        before = [i for i in facts.conversation if i < b and not facts.side(i)]
        if event.logical_parent in facts.position or event.logical_parent in facts.log.index or not before:
            continue
        tail = tail_of(event)
        known = tail is not None and tail in facts.position
        truth = (
            f"; its kept tail ends at line {facts.log.lines[facts.position[tail]]}, the true predecessor"
            if known and tail
            else ""
        )
        yield facts.finding(
            "dangling-logical-parent", "boundary", "cause", [b],
            f"the boundary at line {facts.log.lines[b]} names a predecessor ({event.logical_parent}) that is in no row{truth}; what "
            "the model is sent after it is whole, but the history before it cannot be followed for export, rewind or the screen",
            fate="unreachable",
            remedy="link it to its kept tail in a repaired copy" if known else None,
        )  # fmt: skip
        yield facts.finding(
            "history-not-shown", "display", "symptom", [b],
            "screens that follow the predecessor show nothing from before this boundary", because_of="dangling-logical-parent",
        )  # fmt: skip


def tail_of(event: CompactionBoundaryCreated) -> str | None:
    about: Any = event.meta.get("compactMetadata")
    segment = about.get("preservedSegment") if isinstance(about, dict) else None
    tail = segment.get("tailUuid") if isinstance(segment, dict) else None
    if isinstance(tail, str):
        return tail
    return record_id(event.kept[-1]) if event.kept else None


def error_as_summary(facts: Facts) -> Iterator[Finding]:
    """The text of a failed request stands where the summary should, or nothing does."""
    for b in facts.boundaries:
        text, row = _summary_text(facts, b)
        if text is None:
            continue
        body = PREFACE.sub("", text).strip()
        if body and not (len(body) <= SHORT and ERROR.search(body)):
            continue
        replaced = [i for i in facts.conversation if i < b and i > max((x for x in facts.boundaries if x < b), default=-1)]
        what = "is the text of a failed request" if body else "is empty"
        rows = [b] if row is None else [b, row]
        yield facts.finding(
            "error-as-summary", "boundary", "cause", rows,
            f"the summary at line {facts.log.lines[rows[-1]]} {what}, and it took the place of {many(len(replaced), 'record')}, which left the request",
            fate="hidden",
            remedy=f"all of them are on disk (up to line {facts.log.lines[b] - 1}) and can be summarised again",
        )  # fmt: skip


def _summary_text(facts: Facts, b: int) -> tuple[str | None, int | None]:
    event = facts.events[b]
    row = facts.summary_of(b)
    message = facts.message(row) if row is not None else None
    blocks = message.content if message is not None else event.content if isinstance(event, CompactionBoundaryCreated) else []
    texts = [block.get("text") or "" for block in blocks if block.get("type") == "text"]
    if not texts and message is None:
        return None, row
    return "\n".join(texts), row


def nothing_of_the_conversation(facts: Facts) -> Iterator[Finding]:
    """A replacement history that holds only standing context: nothing the person or the model said, and no summary."""
    for b in facts.boundaries:
        event = facts.events[b]
        if not isinstance(event, CompactionBoundaryCreated):
            continue
        history = event.meta.get("replacement_history")
        if not isinstance(history, list) or any(_of_conversation(item) for item in history):
            continue
        before = [i for i in facts.conversation if i < b]
        if not before or (
            event.content and any(block.get("text") for block in event.content if not _standing(block.get("text")))
        ):
            continue
        yield facts.finding(
            "nothing-of-the-conversation", "boundary", "cause", [b],
            f"the replacement history at line {facts.log.lines[b]} has {many(len(history), 'item')}, standing context only: nothing "
            f"of the {many(len(before), 'record')} before it, and no summary, goes on",
            fate="hidden",
            remedy="the records are on disk before this line; resume from there or compact again",
        )  # fmt: skip


STANDING = re.compile(
    r"^\s*(<(permissions instructions|environment_context|user_instructions|INSTRUCTIONS|skills|collaboration)|# AGENTS\.md)"
)


def _standing(text: Any) -> bool:
    return isinstance(text, str) and STANDING.match(text) is not None


def _of_conversation(item: Any) -> bool:
    """Whether an item of a replacement history comes from the conversation or stands for it."""
    if not isinstance(item, dict):
        return False
    if item.get("type") not in (None, "message"):
        return True
    if item.get("role") in ("developer", "system"):
        return False
    content = item.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text") for part in content or [] if isinstance(part, dict)]
    return any(isinstance(text, str) and text.strip() and not _standing(text) for text in texts)


def replayed_from_before(facts: Facts) -> Iterator[Finding]:
    """Rows from before an earlier boundary were appended again, and the conversation goes on from the copy."""
    if facts.log.source.format not in LINKED or not facts.path:
        return
    leaf = facts.path[-1]
    again = [i for i in range(len(facts.events)) if record_id(facts.events[i].id) != facts.events[i].id]
    if not again:
        return
    joined = {facts.parent(i) for i in facts.path}
    for b in facts.boundaries:
        copies = [i for i in again if i > b and facts.position[record_id(facts.events[i].id)] < b]
        passed = [x for x in facts.boundaries if b <= x < leaf and not _on_branch(facts, x, joined)]
        if not copies or not passed:
            continue
        ids = {record_id(facts.events[i].id) for i in copies}
        lost = [i for i in facts.spoken_between(b, leaf) if i not in facts.reachable and i not in again]
        stray = [i for i in range(copies[-1] + 1, len(facts.events)) if facts.parent(i) in ids]
        child = [i for i in facts.path if i > copies[-1] and i not in again][:1]
        rows = [copies[0], copies[-1], *stray[:1], *[x for x in passed if x > copies[-1]][:1], *child]
        yield facts.finding(
            "replayed-from-before", "boundary", "cause", list(dict.fromkeys(rows)),
            f"lines {facts.log.lines[copies[0]]} to {facts.log.lines[copies[-1]]} repeat rows from before the boundary at line "
            f"{facts.log.lines[b]}, and the conversation goes on from them, which leaves {many(len(passed), 'boundary')} and "
            f"{many(len(lost), 'record')} off the branch",
            fate="unreachable",
            remedy=f"continue from the summary after line {facts.log.lines[passed[-1]]}",
        )  # fmt: skip
        yield facts.finding(
            "repeated-rows", "log", "symptom", copies[:1],
            f"the file holds {many(len(copies), 'row')} twice", fate="intact", because_of="replayed-from-before",
        )  # fmt: skip
        return


def _on_branch(facts: Facts, b: int, joined: set[str | None]) -> bool:
    """Whether the active branch goes through a boundary: some reachable row hangs from it or from its summary."""
    id = record_id(facts.events[b].id)
    row = facts.summary_of(b)
    return (row is not None and row in facts.reachable) or id in joined
