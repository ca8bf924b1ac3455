"""A compaction in slow motion: frames of plain data, for a replay (R11.2).

Knows: what to show of a compaction, one step after the other, from the request before, the boundary
and the request after. Does not know how it is drawn, nor which agent wrote the log. Tokens are
estimates at 3.5 characters a token unless a provider's count is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..history.events import CompactionBoundaryCreated, Usage
from ..history.replay import Frame, Replay
from ..settings import ContextSettings
from .budget import category, estimate
from .pieces import Piece, Projection

REBUILT = ("summary", "attachment", "memory", "reminder")
"""states of pieces that an agent makes anew after a compaction, be they in the boundary or in rows of their own"""


def compaction(
    n: int,
    boundary: CompactionBoundaryCreated,
    before: Projection,
    after: Projection,
    settings: ContextSettings,
    usage: Usage | None = None,
) -> Replay:
    """The frames of a compaction. `before` and `after` are the requests on both sides, `usage` of the summary call."""

    def tokens(pieces: Sequence[Piece]) -> int:
        return estimate(sum(p.chars for p in pieces), settings)

    def rows(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
        return [
            {"key": p.key, "message": p.message, "role": p.role, "kind": p.block.get("type", ""), "state": p.state,
             "category": category(p), "chars": p.chars, "sources": list(p.sources)}
            for p in pieces
        ]  # fmt: skip

    there, known = {p.key for p in after.pieces}, {p.key for p in before.pieces}
    made = [p for p in after.pieces if p.key not in known and (p.state in REBUILT or boundary.id in p.sources)]
    kept = [p for p in before.pieces if p.key in there]
    gone = [p for p in before.pieces if p.key not in there]
    summary = [p for p in made if p.state == "summary"]
    rebuilt = [p for p in made if p.state != "summary"]
    meta = boundary.meta
    total, gone_tokens, new_tokens = tokens(before.pieces), tokens(gone), tokens(made)
    recorded = f" at {boundary.tokens_before:,} tokens" if boundary.tokens_before else ""
    cost = {} if usage is None else {"usage": msgspec.to_builtins(usage)}
    frames = [
        Frame("Before", f"{len(before.pieces)} pieces, about {total:,} tokens of messages; " +
              f"trigger: {boundary.trigger or 'not recorded'}{recorded}",
              {"tokens": total, "recorded": boundary.tokens_before or None, "pieces": rows(before.pieces)}),
        Frame("The cut", meta.get("why") or f"keeps {len({p.message for p in kept})} messages verbatim",
              {"candidate": meta.get("candidate"), "cut": meta.get("cut"), "first_kept": kept[0].key if kept else None}),
        Frame("Summarised", f"{len(gone)} pieces of about {gone_tokens:,} tokens leave the request; their rows stay on disk",
              {"tokens": gone_tokens, "pieces": rows(gone), **cost}),
        Frame("The summary", f"about {tokens(summary):,} tokens stand for them" if summary else
              "not among the messages that the file holds", {
            "tokens": tokens(summary), "text": "\n".join(p.block.get("text") or "" for p in summary),
            "symbols": meta.get("symbols", []), "made_by": meta.get("summary", "model")}),
        Frame("Kept verbatim", f"{len(kept)} pieces, about {tokens(kept):,} tokens" +
              ("; their thinking left in the same commit" if meta.get("strip_thinking") else ""),
              {"tokens": tokens(kept), "pieces": rows(kept)}),
        Frame("Recovery attachment", f"{len(rebuilt)} sections, about {tokens(rebuilt):,} tokens of rebuilt context",
              {"tokens": tokens(rebuilt), "sections": [p.block.get("text") or "" for p in rebuilt]}),
        Frame("After", f"about {new_tokens + tokens(kept):,} tokens, {total - new_tokens - tokens(kept):,} fewer",
              {"tokens": new_tokens + tokens(kept), "recorded": boundary.tokens_after or None, "pieces": rows([*made, *kept])}),
    ]  # fmt: skip
    return Replay("compaction", n, frames)
