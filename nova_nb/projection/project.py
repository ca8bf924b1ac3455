"""From the chain to what the model sees.

Knows: how each node of Nova's own chain becomes pieces, and the order of the stages. Does not
know the log (it gets a chain) nor a provider's words. Pure: the same chain and settings give the
same pieces, and `Projector`, which works a step at a time, gives what `project` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..history.chain import Node
from ..history.events import CompactionBoundaryCreated, MessageAppended
from ..settings import ContextSettings
from .pieces import Piece, Projection, block_chars

Stage = Callable[[list[Piece], ContextSettings], list[Piece]]
"""A pure step of the pipeline. A pipeline is a list of these; later stages see what earlier ones left."""

STAGES: list[Stage] = []


def pieces_of(node: Node) -> list[Piece]:
    """The pieces of one node before any stage."""
    if isinstance(node, CompactionBoundaryCreated):
        out = []
        for part, state, blocks in (("summary", "summary", node.content), ("attachment", "attachment", node.attachment)):
            for i, block in enumerate(blocks):
                key = f"{node.id}:{part}:{i}"
                out.append(Piece(key, f"{node.id}:{part}", "user", block, (node.id,), state, "compaction", block_chars(block)))
        return out
    return [message_piece(node, i) for i in range(len(node.content))]


def message_piece(node: MessageAppended, i: int) -> Piece:
    """One block of a message. A result that was written to a file is a preview."""
    block = node.content[i]
    state, reason, original = "whole", "", None
    if block.get("type") == "tool_result":
        original = node.meta.get("externalized", {}).get(block.get("tool_use_id"))
        if original is not None:
            state, reason = "preview", "result over the limit, written to a file"
    return Piece(f"{node.id}:{i}", node.id, node.role, block, (node.id,), state, reason, block_chars(block), original)


def project(chain: Iterable[Node], settings: ContextSettings, stages: Sequence[Stage] = STAGES) -> Projection:
    """What the model sees of a chain. Later parts of the pipeline join `STAGES`."""
    pieces = [piece for node in chain for piece in pieces_of(node)]
    for stage in stages:
        pieces = stage(pieces, settings)
    return Projection(pieces)
