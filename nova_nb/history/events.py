"""What can happen in a session, as frozen values.

Knows: the event types, their fields, and their one-line JSON form. Does not know where events
are stored (`journal`), which of them are active (`chain`), or how a model sees them
(`projection`). Sessions of other agents are read into the same types: a conversation row becomes
`MessageAppended`, a boundary `CompactionBoundaryCreated`, and anything else `ForeignRow`, which
keeps the agent's own row as it was.

A *message* is a role and a list of content blocks. Blocks are plain JSON objects, never changed
after they enter an event:

    {"type": "text", "text": str}
    {"type": "thinking", "thinking": str, "signature": str?}
    {"type": "image", ...}                       as the provider gave it
    {"type": "tool_use", "id": str, "name": str, "input": object}
    {"type": "tool_result", "tool_use_id": str, "content": str | list of blocks, "is_error": bool?}

Unknown block types pass through. Unknown event types of a newer Nova become `UnknownEvent` and
are carried through with their raw line.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1
"""Version of the log format; raised when an old reader could misread a new log."""

Block = dict[str, Any]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model call, normalised (SPEC R9.3): the four parts never overlap.

    >>> Usage(input=10, cache_read=90, output=5).context
    100
    """

    input: int = 0
    """input tokens that were neither read from nor written to the cache"""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def context(self) -> int:
        """Size of the request in tokens: input + cache_read + cache_write."""
        return self.input + self.cache_read + self.cache_write


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One fact. `id` is unique in its log; `at` is ISO 8601 UTC, or "" where the log has no time."""

    id: str
    at: str = ""


class SessionStarted(Event, frozen=True, kw_only=True, tag="session_started"):
    """First event of a log. `origin` names the node of another session that this one was forked from."""

    session: str
    schema: int = SCHEMA
    nova: str = ""
    model: str = ""
    workspace: str = ""
    settings: dict[str, Any] = {}
    origin: dict[str, Any] | None = None


class PromptSet(Event, frozen=True, kw_only=True, tag="prompt_set"):
    """What stands before the messages from here on: system blocks and tool schemas, whole.

    Appended only when it changes, so that a request can be built from the log alone (law 9).
    """

    system: list[Block] = []
    tools: list[dict[str, Any]] = []
    reason: str = ""


class MessageAppended(Event, frozen=True, kw_only=True, tag="message_appended"):
    """A message joined the chain below `parent` (None: it is a root).

    `origin` says whose words they are: "person", "model", "tool", "nova" (the harness).
    `group` is the provider's id of the answer: several rows with one group are one message.
    """

    parent: str | None = None
    role: str
    content: list[Block]
    origin: str = ""
    group: str | None = None
    model: str | None = None
    usage: Usage | None = None
    meta: dict[str, Any] = {}
    """facts about the row that the model never sees: flags of a foreign log, the thinking that was not kept"""


class ToolResultExternalized(Event, frozen=True, kw_only=True, tag="tool_result_externalized"):
    """A result was written to `artifact` (relative to the session directory) before its message was appended."""

    tool_use_id: str
    artifact: str
    chars: int
    lines: int = 0
    content_type: str = "text/plain"
    sha256: str = ""


class ProjectionCommitted(Event, frozen=True, kw_only=True, tag="projection_committed"):
    """From here on the projection treats the named events as `action` says; replayed, never decided again.

    action: "reclaim" | "clip" | "fold". `targets` are event ids, or "id#tool_use_id" for one call or result, or (clip) "id#block:n" for one block.
    `prefix` is the hash of the prefix the decision was made on, `policy` the version of the rule.
    """

    action: str
    targets: list[str]
    text: str = ""
    reason: str = ""
    prefix: str = ""
    policy: str = ""
    leaf: str | None = None
    """the chain's last node when it was made: it counts on every branch through that node (None: the head at this line)"""
    meta: dict[str, Any] = {}
    """the ledger of the decision: tokens in and out, what it cost in cached prefix"""


class ProjectionUndone(Event, frozen=True, kw_only=True, tag="projection_undone"):
    """A commit no longer counts, on every branch through `leaf` (None: the head at this line)."""

    commit: str
    leaf: str | None = None


class CompactionBoundaryCreated(Event, frozen=True, kw_only=True, tag="compaction_boundary_created"):
    """History before this point is represented by `content`; the raw rows stay on disk.

    A node of the chain with no parent. `logical_parent` is the leaf it was made on. `kept` are the
    ids of messages that stay verbatim after the summary, in order. `content` holds the blocks of the
    summary message (user role), `attachment` those of the recovery attachment.
    """

    parent: None = None
    logical_parent: str | None = None
    trigger: str = ""
    content: list[Block] = []
    attachment: list[Block] = []
    kept: list[str] = []
    tokens_before: int = 0
    tokens_after: int = 0
    meta: dict[str, Any] = {}


class RuntimeStateCheckpointed(Event, frozen=True, kw_only=True, tag="runtime_state_checkpointed"):
    """State beside the conversation, whole: files read last, tools used, mode, directory, branch, …"""

    state: dict[str, Any]


class RequestSent(Event, frozen=True, kw_only=True, tag="request_sent"):
    """A request left. `leaf` is the chain's last node in it, `hash` the SHA-256 of its canonical bytes."""

    step: int
    kind: str = "main"
    leaf: str | None = None
    hash: str = ""
    prefix_bytes: int = 0
    total_bytes: int = 0
    tokens: int = 0
    """estimate of its size when it was sent"""
    model: str = ""
    prompt: str | None = None
    """id of the PromptSet in force"""
    policy: str = ""
    meta: dict[str, Any] = {}
    """`append`: neutral messages that stood after the projection in this request alone (a summary's instruction)"""


class ReplyReceived(Event, frozen=True, kw_only=True, tag="reply_received"):
    """The answer to a request; its words are in the message `message` (None: there are none)."""

    request: str
    message: str | None = None
    usage: Usage = Usage()
    stop_reason: str = ""
    meta: dict[str, Any] = {}


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started"):
    """A tool began to run: from here on its effects may exist even if no result was written."""

    tool_use_id: str
    name: str = ""


class BranchSelected(Event, frozen=True, kw_only=True, tag="branch_selected"):
    """The head moved to `leaf`: the next message hangs below it."""

    leaf: str | None
    reason: str = ""


class MemoryOperation(Event, frozen=True, kw_only=True, tag="memory_operation"):
    """Something of memory was read, written, injected, evicted or summarised (R8.8)."""

    operation: str
    name: str = ""
    messages: list[str] = []
    meta: dict[str, Any] = {}


class Failure(Event, frozen=True, kw_only=True, tag="failure"):
    """Something did not work and the session went on. `part`: compaction, spill, provider, tool, recall, …"""

    part: str
    message: str
    meta: dict[str, Any] = {}


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """A fact worth keeping that changes no state: an interrupt, a repair, a difference found at resume."""

    kind: str
    message: str = ""
    meta: dict[str, Any] = {}


class ForeignRow(Event, frozen=True, kw_only=True, tag="foreign_row"):
    """A row of another agent's log that is no message: kept, counted and shown, and possibly a link of its chain."""

    kind: str
    parent: str | None = None
    data: Any = None


class UnknownEvent(Event, frozen=True, kw_only=True, tag="unknown"):
    """An event type this Nova does not know, kept as the bytes it was."""

    kind: str = ""
    raw: bytes = b""


AnyEvent = (
    SessionStarted | PromptSet | MessageAppended | ToolResultExternalized | ProjectionCommitted | ProjectionUndone
    | CompactionBoundaryCreated | RuntimeStateCheckpointed | RequestSent | ReplyReceived | ToolStarted | BranchSelected
    | MemoryOperation | Failure | Note | ForeignRow | UnknownEvent
)  # fmt: skip

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(AnyEvent)


def to_json(event: Event) -> bytes:
    """One event as compact JSON without a line end. An `UnknownEvent` gives back its own bytes."""
    return event.raw if isinstance(event, UnknownEvent) else _encoder.encode(event)


def from_json(line: bytes | memoryview) -> Event:
    """One event from its JSON. Raises msgspec.DecodeError for bytes that are no JSON object with a type."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        data = msgspec.json.decode(line)
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            raise
        return UnknownEvent(id=str(data.get("id", "")), at=str(data.get("at", "")), kind=data["type"], raw=bytes(line))
