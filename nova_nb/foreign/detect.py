"""Which agent wrote this? Decided by content, never by name.

Knows: the list of formats and the sentences for what is no session. Reads at most 64 KiB.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import cast

from ..errors import NotASession
from .base import Format

FORMATS: tuple[str, ...] = (
    "claude_code",
    "nova",
    "codex",
    "opencode",
    "gemini",
    "copilot",
    "swe_agent",
    "mini_swe_agent",
    "letta",
    "atif",
    "cline",
    "openai_agents",
    "langgraph",
    "inspect_log",
    "openhands",
    "pi",
    "request_body",  # takes anything with messages in it, so it comes last
)
"""Modules under `nova_nb.foreign`, asked in this order; the first that recognises the content reads it.

The order only decides what is imported on the way: the most common comes first, and Nova's own needs its settings."""

HEAD = 65_536


def format_of(path: str | os.PathLike[str]) -> Format:
    """The format of a path. Raises NotASession with what the path is instead and what to try."""
    path = Path(path)
    head = _head(path)
    names = []
    for module_name in FORMATS:
        module = format_named(module_name)
        if module.sniff(path, head):
            return module
        names.append(module.name)
    if path.is_dir():
        what = "a folder without a session in it; give the folder or file that the agent wrote"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "text in UTF-16, as some shells write it; save it as UTF-8, or give the file that the agent wrote"
    elif b"\0" in head[:1024]:
        what = "binary data and no session; give the file that the agent wrote"
    else:
        what = "no session of an agent Nova knows; give the file as the agent wrote it, not a copy of its output"
    raise NotASession(f"{path}: this is {what} (Nova reads {', '.join(names)})")


def format_named(module_name: str) -> Format:
    """One of FORMATS, by the name of its module."""
    return cast(Format, importlib.import_module(f"nova_nb.foreign.{module_name}"))


def _head(path: Path) -> bytes:
    """The first bytes of a file, empty for a folder. Raises NotASession for what can be neither."""
    try:
        if path.is_dir():
            return b""
        if not path.exists():
            raise NotASession(f"{path}: there is no such file; check the path")
        if not path.is_file():
            raise NotASession(f"{path}: this is neither a file nor a folder; copy what it holds to a file and open that")
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise NotASession(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if not head:
        raise NotASession(f"{path}: the file is empty; the agent may not have written its first line yet")
    return head
