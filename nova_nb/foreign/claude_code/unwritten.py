"""What a request held that no file holds.

Knows: which reminders a version sends without writing them down, and the signs in a log that one
was sent. Says nothing where there is no sign. The signs were read off captured requests of 2.0.77;
versions that write `attachment` rows lack only the wording of those without `rendered`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...history.events import CompactionBoundaryCreated, ForeignRow, MessageAppended
from .chain import Transcript

TODO, CHANGED, REREAD, WORDING, BEFORE, KEPT = 1, 2, 4, 8, 16, 32
LIVE = BEFORE | KEPT
"""What only the process that wrote the rows still had; one that resumes the file lacks it as the file does."""

SENTENCES = {
    TODO: "a reminder to use TodoWrite (2.0.77 sends one after ten blocks of answers without it and writes it to no file)",
    CHANGED: "a note that a file it had read was changed since (2.0.77 sends one at the next prompt and writes it to no file)",
    REREAD: "the files that were read again after the compaction (2.0.77 sends them and writes them to no file)",
    WORDING: "the wording of some reminders (their attachment rows hold only the data)",
    BEFORE: "what came before the first row of this chain: its parent is in no row of this file",
    KEPT: "messages that the compaction kept word for word and that are in no row of this file",
}

UNSEEN = ("prompt_snapshot", "command_permissions", "hook_non_blocking_error", "compact_file_reference")
"""Attachments that give the model nothing, or nothing in the versions that do not say what they rendered."""


def unseen(kind: str, attachment: Any) -> bool:
    """Whether an attachment gives the model nothing: a kind that never does, or a hook that said nothing."""
    said = attachment.get("content") if isinstance(attachment, dict) else None
    return kind in UNSEEN or (kind == "hook_success" and not said)


class State(NamedTuple):
    """What is known after a row."""

    missing: int = 0
    blocks: int = 0
    """blocks of answers since TodoWrite was last called"""
    read: bool = False
    edited: bool = False


def states(transcript: Transcript, starts: list[int]) -> list[State]:
    """The state after each row, along its parents. `starts` are rows that a resuming process wrote first: it has
    forgotten what was not written."""
    writes = any(isinstance(e, ForeignRow) and e.kind.startswith("attachment/") for e in transcript.events)
    begins = sorted(starts)
    unkept = {boundary.at for boundary in transcript.boundaries if boundary.missing}
    out: list[State] = []
    for i, event in enumerate(transcript.events):
        up = transcript.up(i)
        state = out[up] if up is not None and up < i else State(BEFORE if up is None and transcript.rows[i].parent else 0)
        if isinstance(event, CompactionBoundaryCreated):
            old = transcript.first.get(event.logical_parent or "")
            read = old is not None and old < i and out[old].read
            state = State(missing=(0 if writes else REREAD * read) | (KEPT if i in unkept else 0))
        elif begins and up is not None and any(up < start <= i for start in begins):
            state = state._replace(missing=state.missing & WORDING)
        if isinstance(event, ForeignRow) and _worded_unseen(event):
            state = state._replace(missing=state.missing | WORDING)
        elif isinstance(event, MessageAppended) and not writes:
            state = _after(state, event)
        out.append(state)
    return out


def _after(state: State, event: MessageAppended) -> State:
    if event.role == "user":
        missing = state.missing | (TODO if state.blocks >= 10 else 0)
        if state.edited and event.origin == "person":
            missing |= CHANGED
        return state._replace(missing=missing)
    for block in event.content:
        name = block.get("name")
        state = State(
            state.missing,
            0 if name == "TodoWrite" else state.blocks + (block.get("type") != "thinking"),
            state.read or name == "Read",
            state.edited or (state.read and name in ("Edit", "MultiEdit", "Write")),
        )
    return state


def _worded_unseen(event: ForeignRow) -> bool:
    """Whether a row put text into the request that it does not hold."""
    kind, data = event.kind.removeprefix("attachment/"), event.data
    return event.kind != kind and kind not in UNSEEN and isinstance(data, dict) and not isinstance(data.get("rendered"), list)


AGAIN = 5
"""Files that are read again after a compaction: those read last."""


def read_again(transcript: Transcript, at: int) -> frozenset[str]:
    """Ids of the results that may stand in a request again, since their files were read again after the compaction at row `at`."""
    read: dict[str, int] = {}
    files: dict[str, str] = {}
    for i in range(at):
        event = transcript.events[i]
        for block in event.content if isinstance(event, MessageAppended) else ():
            if block.get("type") == "tool_use" and block.get("name") == "Read" and isinstance(block.get("input"), dict):
                files[str(block.get("id"))] = str(block["input"].get("file_path"))
            elif block.get("type") == "tool_result" and (file := files.get(str(block.get("tool_use_id")))) is not None:
                read.pop(file, None)
                read[file] = i
    return frozenset(transcript.id(i) for i in list(read.values())[-AGAIN:])


def text_of(attachment: Any) -> str:
    """The text that an attachment without `rendered` is about: a queued prompt, a file's content, what a hook said."""
    if not isinstance(attachment, dict):
        return ""
    for key in ("prompt", "content", "text", "snippet", "context", "message"):
        value = attachment.get(key)
        while isinstance(value, dict):
            value = value.get("content") or value.get("file") or value.get("text")
        if isinstance(value, list):
            value = "\n".join(v if isinstance(v, str) else str(v.get("text", "")) for v in value if isinstance(v, str | dict))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def sentences(missing: int) -> tuple[str, ...]:
    """What is missing, in words."""
    return tuple(text for flag, text in SENTENCES.items() if missing & flag)
