"""The four counts of a session: on disk, reachable, in the next request, shown.

Knows: how they are taken from a format's answers. A count whose rule is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..projection.pieces import Piece

if TYPE_CHECKING:
    from ..session import Session


def counts(session: Session, next_request: Iterable[Piece]) -> dict[str, int | None]:
    """{"on_disk", "reachable", "in_request", "shown"}, of conversation records, each record once."""
    conversation = set(session.format.conversation(session.log))
    sent = {id for piece in next_request for id in piece.sources}
    shown = session.format.shown(session.log)
    return {
        "on_disk": len(conversation),
        "reachable": len(session.format.reachable(session.log, session.leaf.record)),
        "in_request": len(conversation & sent),
        "shown": None if shown is None else len(shown),
    }
