"""Proof of replay: every recorded request made again from the log alone, and compared by its hash (law 9).

Knows: how a request is derived, what the log recorded of the one that was sent (hash, sizes, and a
digest of each block that was new in it), and how to say where two requests part without having the
bytes of one. Does not repair anything.

What is hashed is the canonical form (`request`): thinking is in no log and in no hash (R2.3), and
cache marks are left out. A request made by rules that this Nova does not have is not called
different: it is "not derived".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..history.events import Event, RequestSent
from ..settings import ContextSettings
from .canonical import encode
from .compaction import POLICY as COMPACTION
from .overflow import as_sent
from .pieces import Piece, messages_of
from .project import POLICY
from .projector import Projector
from .request import Request, canonical_lines, canonical_message

POLICIES = {"", POLICY, COMPACTION}
"""Versions of the rules that this Nova can replay; "" stands in logs from before they were named."""

CHANGES = "projection_committed, projection_undone, compaction_boundary_created or branch_selected"
"""The events that change what stands before the end of a request."""


class Parting(msgspec.Struct, frozen=True):
    """Where a derived request parts from the one that was sent."""

    part: str
    """"system or tools" | "message" | "unknown" """
    message: int | None = None
    """index in the derived request's messages; one past the end when more was sent than is derived"""
    block: int | None = None
    sources: tuple[str, ...] = ()
    """events that the derived block comes from"""
    event: str = ""
    """the type of event that should have announced it"""
    sentence: str = ""


class Checked(msgspec.Struct, frozen=True):
    """One recorded request. `state`: "same", "different" or "not derived"."""

    step: int
    request: str
    line: int | None
    kind: str
    state: str
    reason: str = ""
    parting: Parting | None = None


class Verification(msgspec.Struct, frozen=True):
    """All recorded requests of a session, in order."""

    checks: tuple[Checked, ...]
    damage: tuple[str, ...] = ()
    """sentences on lines that could not be read as they were written"""
    note: str = "thinking is in no log and no hash"
    """what the hashes do not speak of"""

    @property
    def ok(self) -> bool:
        """No request is different from what the log gives."""
        return all(check.state != "different" for check in self.checks)

    def __str__(self) -> str:
        if not self.checks:
            return "no request is recorded in this session"
        same = sum(check.state == "same" for check in self.checks)
        lines = [
            f"{same} of {len(self.checks)} recorded requests derived again, byte for byte"
            + (f" ({self.note})" if self.note else "")
        ]
        for check in self.checks:
            if check.state != "same":
                where = f"line {check.line}" if check.line else check.request
                lines.append(f"step {check.step} ({check.kind}, {where}): {check.state}: {check.reason}")
        return "\n".join([*lines, *(f"damage: {sentence}" for sentence in self.damage)])


def verify(
    events: Iterable[Event], settings: ContextSettings, line: Callable[[str], int | None] = lambda id: None
) -> Verification:
    """Derive every request that `events` record. `line` gives an event's physical line, for the report."""
    projector = Projector(settings)
    checks: list[Checked] = []
    past = _Past(line)
    for event in events:
        if isinstance(event, RequestSent):
            checks.append(_checked(projector, event, len(checks) + 1, past))
            if event.kind == "main":
                past.last, past.sent = event.id, len(past.seen)
        past.seen[event.id] = len(past.seen)
        projector.add(event)
    return Verification(tuple(checks))


@dataclass
class _Past:
    """What stood in the log before a request."""

    line: Callable[[str], int | None]
    seen: dict[str, int] = field(default_factory=dict)
    """events by id, with their position"""
    last: str | None = None
    """the main request before"""
    sent: int = 0
    """its position"""

    def announces(self, sources: Sequence[str]) -> str:
        """The event that would have told of a change in a block from these events."""
        old = self.last is not None and sources and all(self.seen.get(id, self.sent) < self.sent for id in sources)
        return CHANGES if old else "message_appended"

    @property
    def since(self) -> str:
        where = self.last and self.line(self.last)
        return f" after the request of line {where}" if where else ""


def block_digests(request: Request) -> list[str]:
    """A digest of each block of the messages that are new in a request, for `RequestSent.meta["blocks"]`.

    One text a message, its blocks' digests (the first 8 hex digits of SHA-256) joined by "-"; aligned to the
    request's end. Costs what is new.
    """
    left = (request.total_bytes or 0) - (request.prefix_bytes or 0)
    out: list[str] = []
    for message in reversed(request.messages):
        if left <= 0:
            break
        left -= len(canonical_message(message))
        out.append(_digest(message))
    return out[::-1]


def _digest(message: dict[str, Any]) -> str:
    blocks = [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]]
    return "-".join(hashlib.sha256(encode(block)).hexdigest()[:8] for block in blocks)


def derived(projector: Projector, sent: RequestSent) -> Request:
    """The request that left, from the state of the log just before it."""
    request = projector.request(sent.step, sent.kind, sent.model)
    pieces = as_sent(request.pieces, sent, projector.settings)
    if pieces is request.pieces:
        return request
    return Request(messages_of(pieces), request.system, request.tools, pieces, sent.step, sent.kind, sent.model)


def _checked(projector: Projector, sent: RequestSent, number: int, past: _Past) -> Checked:
    def result(state: str, reason: str = "", parting: Parting | None = None) -> Checked:
        return Checked(number, sent.id, past.line(sent.id), sent.kind, state, reason, parting)

    if not sent.hash:
        return result("not derived", "the log holds no hash of it")
    if sent.policy not in POLICIES:
        return result(
            "not derived",
            f"it was made by the rules {sent.policy!r}, which this Nova does not have; verify it with the one that wrote it",
        )
    request = derived(projector, sent)
    if request.hash == sent.hash:
        return result("same")
    if sent.kind != "main" and not sent.meta.get("append"):
        return result("not derived", f"a {sent.kind!r} request is not made from the chain alone")
    if projector.head != sent.leaf:
        sentence = (
            f"it was sent from {sent.leaf}, but the log's head there is {projector.head}; a branch_selected event is missing"
        )
        return result("different", sentence, Parting("unknown", event="branch_selected", sentence=sentence))
    parting = _parting(request, sent, past)
    return result("different", parting.sentence, parting)


def _parting(request: Request, sent: RequestSent, past: _Past) -> Parting:
    """Where the two part, from the sizes and digests that the log has of the request that was sent."""
    shared = request.prefix_bytes or 0
    if past.last is not None and sent.prefix_bytes != shared:
        at, block = _position(request, min(shared, sent.prefix_bytes))
        return _at(request, at, block, CHANGES, past)
    blocks = sent.meta.get("blocks")
    if isinstance(blocks, list) and blocks:
        new = block_digests(request) if past.last is not None else [_digest(m) for m in request.messages]
        first = len(request.messages) - len(new)
        for i, (ours, theirs) in enumerate(zip(new, map(str, blocks), strict=False)):
            if ours != theirs:
                pairs = enumerate(zip(ours.split("-"), theirs.split("-"), strict=False))
                n = next((j for j, (a, b) in pairs if a != b), min(ours.count("-"), theirs.count("-")) + 1)
                return _at(request, first + i, n, "", past)
        same = len(new) == len(blocks)
        return _at(request, -1 if same else first + min(len(new), len(blocks)), 0, "", past)
    derived_bytes, sent_bytes = len(request.canonical) - shared, sent.total_bytes - sent.prefix_bytes
    what = f"in what is new in this request ({derived_bytes} bytes derived, {sent_bytes} sent)"
    return Parting("unknown", sentence=f"{what}; the log holds no digests that would say where")


def _at(request: Request, message: int, block: int, event: str, past: _Past) -> Parting:
    """The parting at a message and block of the derived request; message -1 stands for system and tools."""
    sources: tuple[str, ...] = ()
    if message < 0:
        where, event = "the system prompt or the tools", "prompt_set"
    elif message >= len(request.messages):
        where, event = f"message {message}, which was sent and is not derived", event or "message_appended"
    else:
        sources = _sources(request.pieces, message, block)
        event = event or past.announces(sources)
        lines = ", ".join(f"{id} (line {past.line(id)})" if past.line(id) else id for id in sources)
        where = f"message {message}, block {block}" + (f", from {lines}" if lines else "")
    sentence = f"first difference in {where}; a {event} event should have announced it{past.since}"
    part = "system or tools" if message < 0 else "message"
    return Parting(part, None if message < 0 else message, block if sources else None, sources, event, sentence)


def _sources(pieces: Sequence[Piece], message: int, block: int) -> tuple[str, ...]:
    at, n, last = -1, 0, None
    for piece in pieces:
        if (piece.message, piece.role) != last:
            at, n, last = at + 1, 0, (piece.message, piece.role)
        if (at, n) == (message, block):
            return piece.sources
        n += 1
    return ()


def _position(request: Request, offset: int) -> tuple[int, int]:
    """Message and block of a byte of the canonical form; message -1 for system and tools."""
    for i, line in enumerate(canonical_lines(request.tools, request.system, request.messages)):
        if offset < len(line):
            if i < 2:
                return -1, 0
            at = len(b'{"content":[')
            for n, block in enumerate(request.messages[i - 2]["content"]):
                at += len(encode(block)) + 1
                if offset < at:
                    return i - 2, n
            return i - 2, max(0, len(request.messages[i - 2]["content"]) - 1)
        offset -= len(line)
    return len(request.messages), 0
