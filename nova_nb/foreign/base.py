"""What Nova must know of an agent to read its sessions: the `Format` protocol.

A format is a module (or object) with these functions; Nova's own sessions have one too
(`nova_nb.foreign.nova`). Everything above, the views and the diagnosis, asks only this protocol,
so it serves every agent alike. Opening never writes and never runs anything named in a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..history.events import Usage
from ..history.log import Log
from ..projection.pieces import Projection


class Step(msgspec.Struct, frozen=True):
    """One model call found in a log. `number` counts from 1 over all kinds, in the order of the calls."""

    number: int
    kind: str = "main"
    """"main" | "compact" | "subagent" | "title" | …"""
    usage: Usage | None = None
    basis: str = "rebuilt"
    record: str | None = None
    """id of the event that holds the answer (its first row), or the request"""
    line: int | None = None
    at: str = ""
    model: str | None = None


class Leaf(msgspec.Struct, frozen=True):
    """The record that the next step continues from, and the named rule that chose it."""

    record: str | None
    line: int | None
    policy: str
    alternatives: tuple[Leaf, ...] = ()


class SessionInfo(msgspec.Struct, frozen=True):
    """One session of a store, as a listing shows it."""

    path: str
    format: str
    session_id: str = ""
    title: str = ""
    modified: float = 0.0
    size: int = 0
    parent: str | None = None
    """session id of the parent, for a fork or a subagent's session"""
    fork: bool = False
    """a session of its own that begins with the parent's past; False with a parent: a subagent of that session"""


class Format(Protocol):
    """Reading rules of one agent. All functions are pure over what is on disk."""

    name: str

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether `path` (first 64 KiB in `head`, empty for a directory) holds this agent's session, by content."""
        ...

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Sessions in a file, folder or database; one for a plain file."""
        ...

    def read(self, path: Path, session_id: str | None = None) -> Log:
        """The session as events. Damage is named in the log, never raised."""
        ...

    def conversation(self, log: Log) -> list[str]:
        """Ids of conversation records (user and assistant rows, tool results included), in file order, each once."""
        ...

    def leaf(self, log: Log) -> Leaf:
        """The record the agent would continue from, with the alternatives other rules would give."""
        ...

    def reachable(self, log: Log, leaf: str | None = None) -> list[str]:
        """Ids of conversation records on the active branch from the leaf, before a boundary cuts it,
        after pairing has brought parallel results back; in the order of the branch."""
        ...

    def shown(self, log: Log) -> list[str] | None:
        """Ids of conversation records on the agent's own screen; None when that rule is not known."""
        ...

    def steps(self, log: Log) -> tuple[Step, ...]:
        """One entry a model call."""
        ...

    def project(self, log: Log, step: int | None = None) -> Projection:
        """What the model was sent at a step, or (None) what the next request would carry."""
        ...

    def body(self, log: Log, projection: Projection, step: int | None = None) -> dict[str, Any] | None:
        """The provider's own words, or None where neutral messages are those words."""
        ...
