"""From the chain to what the model sees: nodes become pieces, pieces go through stages.

Knows: how each node becomes pieces and the order of the stages. Does not know the log (it gets a
chain), a provider's words (`request`, `cache`), or how to do this a step at a time (`projector`).
Decides nothing: what is reclaimed, folded or compacted stands in the log and is replayed here.

A chain falls into segments, an assistant message with the user messages that answer it. A stage is
a pure function of one segment, so what is finished stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..history.chain import Node
from ..history.events import CompactionBoundaryCreated, MessageAppended, ProjectionCommitted
from ..settings import ContextSettings
from .commits import View
from .commits import replay as replay_commits
from .pieces import STATES, Piece, Projection, block_chars
from .repair import Message, Segment, repair


@dataclass
class Around:
    """What a stage may know besides its segment."""

    view: View = field(default_factory=View)
    started: set[str] = field(default_factory=set)
    """ids of calls that began to run"""
    taken: set[str] = field(default_factory=set)
    """ids of calls in earlier segments"""
    stripped: set[str] = field(default_factory=set)
    """kept messages whose thinking left with a compaction"""
    first: bool = True
    """nothing stands before this segment"""


Stage = Callable[[Segment, Around], Segment]
"""A pure step of the pipeline. A pipeline is a list of these; later stages see what earlier ones left."""


def strip_thinking(segment: Segment, around: Around) -> Segment:
    """Thinking of kept turns leaves once, in the commit of the compaction that kept them."""
    if not around.stripped:
        return segment
    messages = [
        [p for p in m if p.block.get("type") not in ("thinking", "redacted_thinking")]
        if m[0].sources[0] in around.stripped
        else m
        for m in segment.messages
    ]
    return Segment([m for m in messages if m], segment.left)


def commits(segment: Segment, around: Around) -> Segment:
    """Reclaimed, clipped and folded, as the log says."""
    return replay_commits(segment, around.view)


def protocol(segment: Segment, around: Around) -> Segment:
    """Calls and results made whole."""
    return repair(segment, around.started, around.taken, around.first)


STAGES: list[Stage] = [strip_thinking, commits, protocol]

POLICY = "projection/1"
"""Version of these rules, for `RequestSent.policy`: raised when the same log would give other bytes."""


def messages_of_node(node: Node) -> list[Message]:
    """The messages of one node before any stage: one, or a boundary's summary and attachment."""
    if isinstance(node, CompactionBoundaryCreated):
        out = []
        for part, state, blocks in (("summary", "summary", node.content), ("attachment", "attachment", node.attachment)):
            message = [
                Piece(f"{node.id}:{part}:{i}", f"{node.id}:{part}", "user", b, (node.id,), state, "compaction", block_chars(b))
                for i, b in enumerate(blocks)
            ]
            if message:
                out.append(message)
        return out
    return [[message_piece(node, i) for i in range(len(node.content))]] if node.content else []


def pieces_of(node: Node) -> list[Piece]:
    """The pieces of one node before any stage."""
    return [piece for message in messages_of_node(node) for piece in message]


def message_piece(node: MessageAppended, i: int) -> Piece:
    """One block of a message. A result that was written to a file is a preview.

    A message of the harness says in `meta["state"]` what it is ("memory", "attachment"); without that
    it is a "reminder".
    """
    block = node.content[i]
    state, reason, original = "whole", "", None
    if block.get("type") == "tool_result":
        original = node.meta.get("externalized", {}).get(block.get("tool_use_id"))
        if original is not None:
            state, reason = "preview", "result over the limit, written to a file"
    elif node.origin == "nova" and node.role == "user":
        named = node.meta.get("state")
        state, reason = (named if named in STATES else "reminder"), node.meta.get("reason", "put in by the harness")
    return Piece(f"{node.id}:{i}", node.id, node.role, block, (node.id,), state, reason, block_chars(block), original)


def segments(chain: Iterable[Node]) -> Iterator[list[Message]]:
    """The chain's messages, cut before each assistant message."""
    open_: list[Message] = []
    for node in chain:
        for message in messages_of_node(node):
            if message[0].role == "assistant" and open_:
                yield open_
                open_ = []
            open_.append(message)
    if open_:
        yield open_


def staged(messages: Sequence[Message], around: Around, stages: Sequence[Stage] = STAGES) -> Segment:
    """One segment through all stages."""
    segment = Segment(list(messages))
    for stage in stages:
        segment = stage(segment, around)
    return segment


def calls_in(segment: Segment) -> set[str]:
    """Ids of the calls that a finished segment sends."""
    return {p.block.get("id", "") for m in segment.messages for p in m if p.block.get("type") == "tool_use"}


def stripped_by(chain: Sequence[Node]) -> set[str]:
    """Kept messages whose thinking left with the compaction at the start of this chain."""
    first = chain[0] if chain else None
    if isinstance(first, CompactionBoundaryCreated) and first.meta.get("strip_thinking"):
        return set(first.kept)
    return set()


def project(
    chain: Iterable[Node],
    settings: ContextSettings | None = None,
    stages: Sequence[Stage] = STAGES,
    commits: Sequence[ProjectionCommitted] = (),
    started: Iterable[str] = (),
) -> Projection:
    """What the model sees of a chain, from scratch. `commits` are those in force, in the order of the log."""
    chain = list(chain)
    around = Around(View(commits, (n.id for n in chain)), set(started), stripped=stripped_by(chain))
    pieces: list[Piece] = []
    left: dict[str, tuple[str, str]] = {}
    for messages in segments(chain):
        segment = staged(messages, around, stages)
        pieces += [p for m in segment.messages for p in m]
        left |= segment.left
        around.taken |= calls_in(segment)
        around.first = around.first and not segment.messages
    return Projection(pieces, left=left)
