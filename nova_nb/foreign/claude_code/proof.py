"""Recorded requests derived again from the conversation rows alone, hash by hash.

Knows: the recorded hashes and the rebuilt messages. It is a test of the reading rules on the session at
hand: where they give another message than was sent, it says which, and from which rows.
"""

from __future__ import annotations

from ...history.log import Log
from ...projection.pieces import Projection, messages_of
from ...projection.verify import Checked, Parting, Verification
from .recorded import Sent, message_hash
from .steps import Call, Story
from .wording import worded


def prove(story: Story, log: Log) -> Verification:
    """Every recorded request of a session and its subagents, in the order of the calls."""
    checks = [_checked(call, call.sent) for call in story.calls if call.sent is not None]
    return Verification(tuple(checks), tuple(damage.message for damage in log.damage), "system and tools apart")


def _checked(call: Call, sent: Sent) -> Checked:
    def checked(state: str, reason: str = "", parting: Parting | None = None) -> Checked:
        line = call.story.log.line(sent.row.id)
        return Checked(call.step.number, sent.row.id, line, call.step.kind, state, reason, parting)

    if not sent.whole:
        return checked("not derived", "the request it builds on is in no row")
    derived = worded(call)
    hashes = [message_hash(message) for message in messages_of(derived.pieces)]
    if tuple(hashes) == sent.hashes:
        return checked("same")
    pairs = zip(hashes, sent.hashes, strict=False)
    at = next((n for n, (mine, true) in enumerate(pairs) if mine != true), min(len(hashes), len(sent.hashes)))
    sentence = f"message {at} of {len(sent.hashes)} is not the one whose hash was recorded"
    return checked("different", sentence, Parting("message", at, None, _sources(derived, at), "", sentence))


def _sources(projection: Projection, message: int) -> tuple[str, ...]:
    """The rows that a message of the projection comes from."""
    found: list[str] = []
    at, last = -1, None
    for piece in projection.pieces:
        at, last = (at, last) if (piece.message, piece.role) == last else (at + 1, (piece.message, piece.role))
        if at == message:
            found += piece.sources
    return tuple(dict.fromkeys(found))
