"""The findings of a diagnosis as a view lists them, each with the row to go to.

Knows: which fields a list needs. Does not judge anything (`nova_nb.diagnosis`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .history import History
from .text import visible

if TYPE_CHECKING:
    from ..session import Session

SHOWN = ("code", "layer", "role", "certainty", "message", "remedy")


def findings(session: Session, history: History) -> dict[str, Any]:
    """{"verdict", "findings": [{code, layer, role, certainty, message, remedy, row}]}; row is -1 where none is named."""
    report = session.diagnose()
    return {
        "verdict": report.verdict,
        "findings": [
            {name: visible(str(getattr(f, name) or "")) for name in SHOWN}
            | {"row": next((history.index[r] for r in f.records if r in history.index), -1)}
            for f in report.findings
        ],
    }
