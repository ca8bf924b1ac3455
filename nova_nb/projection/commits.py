"""What the projection's commits say, replayed: reclaimed, clipped and folded (R4.2 to R4.4, R4.7).

Knows: how each kind of commit changes the pieces of a segment. Does not know why a commit was made
(`reclaim`, `fold`): loading a log replays commits and never decides again. A commit counts on
every branch that passes through the node it was made on, and on no other.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..history.events import Block, ProjectionCommitted
from .pieces import Piece
from .repair import Message, Segment, made_up, replaced

LARGE_ARGUMENT = 200
"""Characters from which an argument of a reclaimed call is shortened; shorter ones (paths, names) stay."""


class View:
    """The commits in force, by what they touch, for one chain."""

    def __init__(self, commits: Iterable[ProjectionCommitted] = (), chain: Iterable[str] = ()) -> None:
        self.reclaimed: dict[str, ProjectionCommitted] = {}
        self.clipped: dict[str, ProjectionCommitted] = {}
        self.folded: dict[str, ProjectionCommitted] = {}
        self.fold_at: dict[str, ProjectionCommitted] = {}
        """the node at whose place a fold's text stands: its first target on this chain"""
        for commit in commits:
            place = {"reclaim": self.reclaimed, "clip": self.clipped, "fold": self.folded}.get(commit.action)
            if place is not None:
                place.update(dict.fromkeys(commit.targets, commit))
        self.parts = any("#block:" in target for target in self.clipped)
        """whether some commit clips single blocks, named "<message id>#block:<index>\""""
        placed: set[str] = set()
        for id in chain if self.folded else ():
            fold = self.folded.get(id)
            if fold is not None and fold.id not in placed:
                placed.add(fold.id)
                self.fold_at[id] = fold


def replay(segment: Segment, view: View) -> Segment:
    """The segment under the commits in force."""
    if not (view.reclaimed or view.clipped or view.folded):
        return segment
    left = dict(segment.left)
    out: list[Message] = []
    for message in segment.messages:
        id = message[0].sources[0]
        if id in view.fold_at:
            out.append([fold_piece(view.fold_at[id])])
        elif id in view.folded:
            pass
        elif id in view.clipped:
            left[id] = ("projection", view.clipped[id].reason or "clipped by a commit")
        else:
            if view.parts:
                message = _clipped(id, message, view, left)
            out.append([_reclaimed(id, piece, view) for piece in message] if view.reclaimed else message)
    return Segment(out, left)


def _clipped(id: str, message: Message, view: View, left: dict[str, tuple[str, str]]) -> Message:
    kept = []
    for piece in message:
        commit = view.clipped.get(f"{id}#block:{piece.key.rpartition(':')[2]}")
        if commit is None:
            kept.append(piece)
        else:
            left[id] = ("projection", commit.reason or "clipped by a commit")
    return kept


def fold_piece(commit: ProjectionCommitted) -> Piece:
    """The text that stands for a run of messages; its sources are all of them."""
    text = commit.text or f"[{len(commit.targets)} messages were folded away.]"
    piece = made_up("fold", text, tuple(commit.targets), "folded")
    return replaced(piece, piece.block, "folded", commit.reason or "folded", commit.targets[0])


def _reclaimed(id: str, piece: Piece, view: View) -> Piece:
    block = piece.block
    if block.get("type") not in ("tool_result", "tool_use"):
        return piece
    tool_use_id = block.get("tool_use_id") if block.get("type") == "tool_result" else block.get("id")
    commit = view.reclaimed.get(f"{id}#{tool_use_id}") or view.reclaimed.get(id)
    if commit is None:
        return piece
    return replaced(piece, placeholder(piece, commit.text), "placeholder", commit.reason, piece.original or id)


def placeholder(piece: Piece, text: str = "") -> Block:
    """The block that stands for a reclaimed one. Its words depend on the block and the commit alone, so they never change."""
    block = piece.block
    if block.get("type") == "tool_use":
        arguments = block.get("input")
        short = {k: _short(v) for k, v in arguments.items()} if isinstance(arguments, dict) else {}
        return {**block, "input": short}
    where = f" The whole is in {piece.original}." if piece.original else " Run the tool again if you need it."
    words = text or "An older result was cleared to save context:"
    return {**block, "content": f"[{words} {piece.chars:,} characters.{where}]"}


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > LARGE_ARGUMENT:
        return f"[{len(value):,} characters, cleared]"
    return value
