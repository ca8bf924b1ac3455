"""A call's request, and the one that a resume would make: the rows picked, worded, and set beside the record.

Knows: which of the two readings, recorded or rebuilt, a request is given by. Does not pick rows
(`steps`, `chain`) nor word them (`wire`).
"""

from __future__ import annotations

from ...history.events import Event
from ...projection.pieces import Projection, messages_of
from . import wire
from .chain import Transcript
from .recorded import pieces_as_recorded, prompt
from .steps import Call, Story
from .unwritten import REREAD, SENTENCES, read_again

HASH_ONLY = "the log names a message of this request by a hash that stands for none of its rows"


def as_sent(call: Call) -> Projection:
    """A call's request: as its request row has it, else rebuilt from the rows of the conversation."""
    rebuilt = worded(call)
    if call.sent is None:
        return rebuilt
    found = call.story.recorded
    messages = found.messages(call.sent, messages_of(rebuilt.pieces), call.story.rows(call))
    if messages is None:
        return Projection(rebuilt.pieces, None, None, (*rebuilt.unknown, HASH_ONLY), rebuilt.left, rebuilt.unsure)
    pieces = pieces_as_recorded(messages, list(rebuilt.pieces), call.sent.row.id)
    system, tools, _ = prompt(found, call.sent)
    return Projection(pieces, system, tools, (), rebuilt.left)


def worded(call: Call) -> Projection:
    """A call's request from the rows of the conversation alone."""
    return _worded(call.story, call.story.rows(call), call.leaf, call.limit, call.unknown)


def following(story: Story, leaf: int | None) -> Projection:
    """What the next request would carry: one of a process that resumes the session at `leaf`, under the latest known prompt."""
    if leaf is None:
        return Projection([])
    t = story.transcript
    limit = len(t.rows)
    rows: list[Event] = story.branch(_last_below(t, leaf), limit, story.since(limit))
    made = _worded(story, rows, leaf, limit, story.missing(leaf, resumed=True))
    latest = next(reversed(story.recorded.sent.values()), None)
    system, tools = (None, None) if latest is None else prompt(story.recorded, latest)[:2]
    return Projection(made.pieces, system, tools, made.unknown, made.left, made.unsure)


def _worded(story: Story, rows: list[Event], leaf: int | None, limit: int, unknown: tuple[str, ...]) -> Projection:
    made = wire.project(rows)
    left = {**made.left, **story.passed_by(leaf, limit)}
    unsure: frozenset[str] = frozenset()
    if SENTENCES[REREAD] in unknown:
        boundaries = (boundary.at for boundary in story.transcript.boundaries if boundary.at < limit)
        unsure = read_again(story.transcript, max(boundaries, default=0))
    return Projection(made.pieces, None, None, unknown, left, unsure)


def _last_below(t: Transcript, leaf: int) -> int:
    """The last row that hangs in one line below the leaf: attachments of a prompt that has no answer yet."""
    children: dict[str, int] = {}
    for i in range(leaf + 1, len(t.rows)):
        parent = t.rows[i].parent
        if parent is not None and not t.rows[i].speaks:
            children.setdefault(parent, i)
    at, seen = leaf, {leaf}
    while (child := children.get(t.rows[at].uuid or "")) is not None and child not in seen:
        seen.add(child)
        at = child
    return at
