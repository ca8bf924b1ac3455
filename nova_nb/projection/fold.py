"""Leaving out named messages, and folding a run of them into a few words (R4.3, R4.4).

Knows: how a wish ("these messages", "from here to there") becomes a range between two safe cuts. Does
not know when to wish; a person, a tool or a strategy does. The result is the commit's targets;
`commits` replays it, `ProjectionUndone` takes it back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import UsageError
from ..settings import ContextSettings
from .invariants import safe_cuts
from .overflow import without_model
from .pieces import Piece
from .repair import Message
from .summary import escape

CLIP_POLICY = "clip/1"
FOLD_POLICY = "fold/1"


def widen(messages: Sequence[Message], ids: Collection[str]) -> list[str]:
    """Ids of the smallest run of whole protocol units that holds all of `ids`, oldest first.

    Raises UsageError when an id is in no message of this request, or stands in a summary.
    """
    known = {source for m in messages for p in m for source in p.sources}
    missing = [id for id in ids if id not in known]
    if missing or not ids:
        raise UsageError(f"no message {missing[0]!r} in the request; take an id of session.projection().pieces" if missing
                         else "name at least one message")  # fmt: skip
    wanted = [i for i, m in enumerate(messages) if any(s in ids for p in m for s in p.sources)]
    if any(messages[i][0].state in ("summary", "attachment") for i in wanted):
        raise UsageError("a compaction's summary cannot be clipped or folded; rewind to before it instead")
    cuts = safe_cuts(messages)
    first = max(c for c in cuts if c <= wanted[0])
    end = min(c for c in cuts if c > wanted[-1])
    return list(dict.fromkeys(s for m in messages[first:end] for p in m for s in p.sources))


def placeholder(pieces: Sequence[Piece], settings: ContextSettings) -> str:
    """A text by rule that may stand for these pieces: how many, what the person said, the last answers, every symbol.

    At most half of what it stands for. Raises UsageError where these pieces are too small for that.
    """
    chars = sum(p.chars for p in pieces)
    head = f"[Folded: {len({p.message for p in pieces})} messages, {chars:,} characters. Made by rule; the originals are in the log.]"
    room = min(chars // 2 - len(head), int(settings.summary_max_tokens * settings.chars_per_token))
    if room <= 0:
        raise UsageError(
            f"these messages hold {chars:,} characters: too few to fold by rule; give the text to put in their place"
        )
    return "\n".join(part for part in (head, escape(without_model(pieces, settings, room))) if part)


def summarised(pieces: Sequence[Piece], summary: str, model: str) -> str:
    """A model's summary as the text that stands for these pieces: said to be one, and escaped."""
    head = f"[Folded: {len({p.message for p in pieces})} messages. Summarised by {model}; the originals are in the log.]"
    return f"{head}\n{escape(summary.strip())}"


def runs(messages: Sequence[Message], ids: Collection[str]) -> list[list[str]]:
    """The same for scattered ids: one run for each stretch that belongs together."""
    out: list[list[str]] = []
    left = set(ids)
    while left:
        first = next((s for m in messages for p in m for s in p.sources if s in left), None)
        run = widen(messages, left if first is None else {first})
        out.append(run)
        left -= set(run)
    return out
