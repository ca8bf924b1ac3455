"""Codex rollouts on disk: which files they are, their lines, and the file that another continues.

Knows: `rollout-<time>-<thread id>[_<rollout id>].jsonl[.zst]`, the two older shapes (bare items on
lines, one JSON object), and `history_base`, by which a fork or a revert names the prefix it shares.
Does not know what a row means for the model (`fold`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...errors import MissingExtra, NotASession
from ...history.log import Damage
from ..common import Json, as_dict, as_int, as_list, as_str, read_head, walk_files
from ..documents import peek_rows
from ..rows import iter_rows
from .sent import is_context

ROLLOUT = re.compile(r"rollout-(?P<time>[0-9T-]{19})-(?P<thread>[0-9a-f-]{36})(?P<rest>_[0-9a-f-]{36})?\.jsonl(\.zst)?")
THREAD = re.compile(r"[0-9a-f-]{36}")
ZSTD = b"\x28\xb5\x2f\xfd"
KINDS = frozenset(
    [
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "world_state",
        "token_usage_record",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
    ]
)
ITEMS = frozenset(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
    ]
)


class Row(NamedTuple):
    """One line: its number in its own file, its kind, its payload. `thread` is set where another file lends it."""

    line: int
    kind: str
    payload: Json
    at: str = ""
    ordinal: int | None = None
    thread: str = ""


def is_rollout(head: bytes) -> bool:
    """Whether a file's first bytes are a Codex session, by the form of its first readable lines."""
    if head.startswith(ZSTD):
        try:
            head = unpack(head, "", 65_536)
        except MissingExtra:
            return True
        except NotASession:
            return False
    for n, row in enumerate(peek_rows(head, 40)):
        if isinstance(row.get("payload"), dict) and isinstance(row.get("type"), str) and row["type"] in KINDS:
            return True
        if n == 0 and {"id", "timestamp", "instructions"} <= row.keys():
            return True
    return head.lstrip().startswith(b"{") and b'"session"' in head[:2_000] and b'"instructions"' in head and b'"items"' in head


def unpack(data: bytes, name: str, limit: int = -1) -> bytes:
    """A `.zst` file's content. Raises MissingExtra without the zstandard package."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtra(f"{name} is compressed; reading it needs zstandard: pip install 'nova_nb[codex]'") from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
            return bytes(stream.read(limit))
    except zstandard.ZstdError as error:
        raise NotASession(
            f"{name}: the compressed data is broken ({error}); unpack it with zstd to see what is left"
        ) from error


def load(path: Path) -> tuple[list[Row], list[Damage], int]:
    """Rows of one file, what was broken, and its size on disk."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    size = len(data)
    if data.startswith(ZSTD):
        data = unpack(data, str(path))
    whole = _whole(data)
    if whole is not None:
        rows = [Row(1, "session_meta", as_dict(whole.get("session")))]
        return rows + [Row(1, "response_item", as_dict(item)) for item in as_list(whole.get("items"))], [], size
    damage: list[Damage] = []
    found = [row_of(line, value) for line, _, value in iter_rows(io.BytesIO(data), damage)]
    return [row for row in found if row is not None], damage, size


def _whole(data: bytes) -> Json | None:
    """The single object of an early session, or None for lines."""
    if b'"items"' not in data[:200_000] or b'"session"' not in data[:2_000] or b"\n{" in data:
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("items"), list) else None


def row_of(line: int, value: Any) -> Row | None:
    """A line's value as a row, in the present shape or in that of before mid-2025; None for what is no object."""
    if not isinstance(value, dict):
        return None
    kind, payload = as_str(value.get("type")), value.get("payload")
    if isinstance(payload, dict):
        ordinal = value.get("ordinal")
        return Row(line, kind, payload, as_str(value.get("timestamp")), ordinal if isinstance(ordinal, int) else None)
    if kind in ITEMS:
        return Row(line, "response_item", value)
    if not kind and {"id", "timestamp"} <= value.keys():
        return Row(line, "session_meta", value, as_str(value.get("timestamp")))
    return Row(line, kind or as_str(value.get("record_type")) or "unknown", value, as_str(value.get("timestamp")))


def meta_of(path: Path) -> Json:
    """The payload of the first session_meta line, from the head of the file alone."""
    head = read_head(path, 262_144)
    if head.startswith(ZSTD):
        try:
            head = unpack(head, str(path), 262_144)
        except (MissingExtra, NotASession):
            return {}
    rows = (row_of(1, value) for value in peek_rows(head))
    return next((row.payload for row in rows if row is not None and row.kind == "session_meta"), {})


def rollouts(root: Path) -> Iterator[Path]:
    """Rollout files below a folder, oldest name first within each folder."""
    yield from walk_files(root, lambda name: ROLLOUT.fullmatch(name) is not None)


def siblings(path: Path) -> list[Path]:
    """Rollouts of the same store: of the `sessions` folder above a file, or of its own folder."""
    root = next((up for up in list(path.parents)[:5] if up.name in ("sessions", "archived_sessions")), path.parent)
    return list(rollouts(root))


def base_of(path: Path, meta: Json) -> tuple[list[Row], str]:
    """The rows that a fork or a revert shares with another file, and a sentence when they cannot be had.

    `history_base` names a thread and the ordinal before which its history counts. Of several files of
    that thread the newest one that is older than this and begins below the ordinal is the one meant.
    """
    return _base(path, meta, {path.resolve()})


def _base(path: Path, meta: Json, seen: set[Path]) -> tuple[list[Row], str]:
    base = as_dict(meta.get("history_base"))
    thread, end = as_str(base.get("thread_id")), as_int(base.get("end_ordinal_exclusive"))
    if not base:
        return [], ""
    missing = f"the history up to ordinal {end} is in a file of thread {thread[:40]}, which is not beside this one"
    if not THREAD.fullmatch(thread):
        return [], "the header names a thread to continue from, but not by a usable id"
    same = [p for p in siblings(path) if thread in p.name and p.name < path.name and p.resolve() not in seen]
    for candidate in sorted(same, key=lambda p: p.name, reverse=True):
        seen.add(candidate.resolve())
        rows, _, _ = load(candidate)
        first = next((r.ordinal for r in rows if r.ordinal is not None), None)
        if first is None or first >= end:
            continue
        head = as_dict(next((r.payload for r in rows if r.kind == "session_meta"), {}))
        below, gap = _base(candidate, head, seen)
        own = [r._replace(thread=thread) for r in rows if r.ordinal is not None and r.ordinal < end]
        return [r for r in below if r.ordinal is not None and r.ordinal < end] + own, gap
    return [], missing


def source_parent(meta: Json) -> str | None:
    """The thread that this one was forked from or is a helper of."""
    spawn = as_dict(as_dict(as_dict(meta.get("source")).get("subagent")).get("thread_spawn"))
    for value in (meta.get("parent_thread_id"), spawn.get("parent_thread_id"), meta.get("forked_from_id")):
        if as_str(value):
            return as_str(value)
    return None


def title_of(path: Path) -> str:
    """The first words of the person, from the head of the file; "" where they are not in it."""
    for value in peek_rows(read_head(path, 262_144), 200):
        row = row_of(1, value)
        if row is None or row.kind != "response_item" or row.payload.get("role") != "user":
            continue
        text = "".join(as_str(as_dict(part).get("text")) for part in as_list(row.payload.get("content")))
        if text and not is_context(row.payload):
            return text[:120]
    return ""
