"""Two requests side by side: where they part, what only one of them holds, and why.

Knows: how to compare two sessions, two steps, a live session against the same one resumed, and a
session against the request that a server received. Does not know any agent's rules: the cause
comes from the reasons that the session's own format gives for what it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ..errors import UsageError
from ..foreign.rows import read_rows
from ..history.events import Block
from ..projection.canonical import encode
from ..projection.pieces import messages_of
from ..projection.request import Request
from .sets import behind, four_sets

if TYPE_CHECKING:
    from ..session import Session

    Held: TypeAlias = Session | tuple[Session, int | None] | Request | dict[str, Any]
    Target: TypeAlias = Held | str | Path


class Place(msgspec.Struct, frozen=True):
    """A block of a request: message and block counted from 0, and the records it came from."""

    message: int
    block: int
    role: str
    kind: str
    text: str
    """its first 200 characters"""
    sources: tuple[str, ...] = ()


class Side(msgspec.Struct, frozen=True):
    """One of the two requests."""

    name: str
    hash: str
    """SHA-256 of the canonical bytes"""
    messages: int
    size: int
    """canonical bytes"""


class Comparison(msgspec.Struct, frozen=True):
    """How request `b` departs from request `a`.

    >>> print(compare((session, 3), (session, 4)).cause)      # doctest: +SKIP
    the second adds 2 messages at the end of the first
    """

    a: Side
    b: Side
    equal: bool
    extends: bool
    """b begins with all of a"""
    first: tuple[Place | None, Place | None]
    """the first block that differs, on each side; None where that side has ended"""
    only_a: tuple[Place, ...]
    only_b: tuple[Place, ...]
    cause: str
    layer: str | None = None
    """where the cause lies, as in a diagnosis; None where nothing is wrong"""

    @property
    def records_only_a(self) -> tuple[str, ...]:
        """Records that only the first request carries."""
        return tuple(dict.fromkeys(id for place in self.only_a for id in place.sources))

    @property
    def records_only_b(self) -> tuple[str, ...]:
        """Records that only the second request carries."""
        return tuple(dict.fromkeys(id for place in self.only_b for id in place.sources))

    def __str__(self) -> str:
        lines = [f"a {self.a.hash[:12]} {self.a.name}: {self.a.messages} messages, {self.a.size} bytes"]
        lines.append(f"b {self.b.hash[:12]} {self.b.name}: {self.b.messages} messages, {self.b.size} bytes")
        lines.append(self.cause)
        if not self.equal and not self.extends:
            lines += [
                f"{side} {place.role} {place.message}.{place.block} {place.text}"
                for side, place in zip("ab", self.first, strict=True)
                if place
            ]
            lines.append(f"only in a: {len(self.only_a)} blocks, only in b: {len(self.only_b)} blocks")
        return "\n".join(lines)


def compare(a: Target, b: Target) -> Comparison:
    """How request `b` departs from `a`: the first block that differs, what only one of them holds, hashes and the cause.

    Each is a session (its next request), a (session, step), a `Request`, a captured body, or the path of a file with one.
    A captured body is compared in the provider's words, without system and tools, which few logs hold.

    Two steps, live against read back, and against what a server got:

    >>> nova.compare((session, 12), (session, 13))                     # doctest: +SKIP
    >>> nova.compare(kernel.session, nova.open_session(directory))     # doctest: +SKIP
    >>> nova.compare((session, 3), "requests/0003.json")               # doctest: +SKIP
    """
    return _compared(*(captured(side) if isinstance(side, str | Path) else side for side in (a, b)))


def _compared(a: Held, b: Held) -> Comparison:
    one, two = _request(a), _request(b)
    if isinstance(b, dict) or isinstance(a, dict):
        one, two = _in_wire_words(one), _in_wire_words(two)
    elif None in (one.system, two.system):
        one, two = replace(one, system=None, tools=None), replace(two, system=None, tools=None)
    difference = one.diff(two)
    places = _places(one), _places(two)
    only_a, only_b = _without(places[0], places[1]), _without(places[1], places[0])
    first = _at(places[0], difference.first, difference.block), _at(places[1], difference.first, difference.block)
    cause, layer = _cause(one, two, (difference.equal, difference.extends), first, places, b)
    return Comparison(
        a=Side(_name(a, one), one.hash, len(one.messages), difference.bytes_a),
        b=Side(_name(b, two), two.hash, len(two.messages), difference.bytes_b),
        equal=difference.equal,
        extends=difference.extends,
        first=first,
        only_a=tuple(place for place, _ in only_a),
        only_b=tuple(place for place, _ in only_b),
        cause=cause,
        layer=layer,
    )


def resumed(session: Session) -> Comparison:
    """The last request of a session's own conversation against the one that a process resuming it would send.

    A resume that loses nothing begins with all that was sent before.
    """
    last = next((step.number for step in reversed(session.steps) if step.kind == "main"), None)
    if last is None:
        raise UsageError(f"{session.path}: no model call to compare with; the session holds no answer yet")
    return compare((session, last), (session, None))


def captured(path: str | Path, seq: int | None = None) -> dict[str, Any]:
    """The body of a captured request: a JSON file with one, or line by line with `body` (and `seq`, to pick by).

    Raises UsageError where the file holds no such request.
    """
    bodies = []
    for row in read_rows(path).rows:
        body = row.value.get("body", row.value)
        if isinstance(body, dict) and ("messages" in body or "input" in body):
            bodies.append((row.value.get("seq"), body))
    for number, body in bodies:
        if seq is None or number == seq:
            return body
    have = ", ".join(str(number) for number, _ in bodies[:20]) or "none"
    raise UsageError(f"{path}: no request {'' if seq is None else seq} with messages or input; it holds {have}")


def _request(target: Held) -> Request:
    if isinstance(target, Request):
        return target
    if isinstance(target, dict):
        system = target.get("system")
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        return Request(_neutral(target), blocks if isinstance(blocks, list) else None, target.get("tools"), basis="recorded")
    session, step = target if isinstance(target, tuple) else (target, None)
    return session.request(step=step)


def _neutral(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages or items of a body, each with its content as blocks."""
    rows = body.get("messages", body.get("input"))
    rows = [{"role": "user", "content": rows}] if isinstance(rows, str) else rows
    out = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            content = row.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            whole = not isinstance(blocks, list)
            out.append({"role": str(row.get("role") or row.get("type")), "content": [row] if whole else blocks})
    return out


def _in_wire_words(request: Request) -> Request:
    """The request without system and tools (a log rarely has them), in the provider's words where it has its own."""
    messages = request.messages if request.provider_body is None else _neutral(request.body)
    return Request(
        messages, pieces=request.pieces, step=request.step, kind=request.kind, basis=request.basis, unknown=request.unknown
    )


def _places(request: Request) -> list[tuple[Place, bytes]]:
    """Every block with its place and its bytes; sources where the request's pieces say them."""
    known = request.pieces if messages_of(request.pieces) == request.messages else ()
    sources = [piece.sources for piece in known]
    out: list[tuple[Place, bytes]] = []
    for m, message in enumerate(request.messages):
        for n, block in enumerate(message["content"]):
            bare = {k: v for k, v in block.items() if k != "cache_control"} if isinstance(block, dict) else {"text": str(block)}
            of = sources[len(out)] if sources else ()
            out.append((Place(m, n, message["role"], str(bare.get("type")), _text(bare)[:200], of), encode(bare)))
    return out


def _text(block: Block) -> str:
    for key in ("text", "thinking", "content", "input", "arguments", "output"):
        if key in block:
            value = block[key]
            return value if isinstance(value, str) else encode(value).decode()
    return encode(block).decode()


def _without(these: Sequence[tuple[Place, bytes]], those: Sequence[tuple[Place, bytes]]) -> list[tuple[Place, bytes]]:
    """What is in these and not in those; a block that is there twice counts twice."""
    left = Counter(data for _, data in those)
    out = []
    for place, data in these:
        if left[data] > 0:
            left[data] -= 1
        else:
            out.append((place, data))
    return out


def _at(places: Sequence[tuple[Place, bytes]], message: int | None, block: int | None) -> Place | None:
    return next((p for p, _ in places if (p.message, p.block) == (message, block)), None)


def _cause(
    one: Request,
    two: Request,
    how: tuple[bool, bool],
    first: tuple[Place | None, Place | None],
    places: tuple[list[tuple[Place, bytes]], list[tuple[Place, bytes]]],
    b: Held,
) -> tuple[str, str | None]:
    """One sentence for why they part, and its layer. Only what the logs say; otherwise what is not known."""
    if how[0]:
        return "the same request", None
    if how[1]:
        return f"the second adds {len(two.messages) - len(one.messages)} messages at the end of the first", None
    if one.system != two.system or one.tools != two.tools:
        return "the system prompt or the tools differ", "cache"
    mine, other = first
    if mine is not None:
        data = next(data for place, data in places[0] if place == mine)
        moved = next((p for p, d in places[1] if d == data), None)
        if moved is not None:
            return (
                f"block {mine.message}.{mine.block} of the first stands at {moved.message}.{moved.block} of the second",
                "projection",
            )
        reason = _left_out(b, mine.sources)
        if reason is not None:
            return f"the second lacks block {mine.message}.{mine.block} of the first: {reason[1]}", reason[0]
        if other is not None and set(mine.sources) & set(other.sources):
            return f"block {mine.message}.{mine.block} comes from the same record and is worded differently", "projection"
    unknown = [*one.unknown, *two.unknown]
    if unknown:
        return f"they part at {_where(mine or other)}; not in the log: {'; '.join(dict.fromkeys(unknown))}", None
    return f"they part at {_where(mine or other)}; the logs do not say why", None


def _where(place: Place | None) -> str:
    return "the end" if place is None else f"block {place.message}.{place.block}"


def _left_out(target: Held, sources: tuple[str, ...]) -> tuple[str, str] | None:
    """Why a session's request does not carry these records, by its own reasons."""
    if isinstance(target, Request | dict) or not sources:
        return None
    session, step = target if isinstance(target, tuple) else (target, None)
    left, log = four_sets(session, step).left_out, session.log
    at = None if step is None else log.index.get(session.steps[step - 1].record or "")
    for id in sources:
        reasons = left[id] if id in left else behind(log, id, at) if id in log.index else ()
        if reasons and reasons[0].certainty == "recorded":
            return reasons[-1].layer, "; ".join(reason.message for reason in reasons)
    return None


def _name(target: Held, request: Request) -> str:
    if isinstance(target, dict):
        return "captured"
    if isinstance(target, Request):
        return "request"
    session = target[0] if isinstance(target, tuple) else target
    return f"{session.log.source.session_id} {'next' if request.step is None else f'step {request.step}'}"
