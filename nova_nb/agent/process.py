"""A child process that always ends: with its time, with an interrupt, and with all of its own children.

Knows: process groups, output, the environment that is passed on. Does not know who may run what
(`permissions`). POSIX only: a group is how a command's own children are found again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

MAX_OUTPUT = 4_000_000
"""bytes kept of one command's output; the rest is read and dropped, so the command is not blocked"""

_SECRET_NAME = re.compile(r"key|token|secret|passw|passphrase|credential|auth(?!or)|cookie|session_id|dsn", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


class Finished(msgspec.Struct, frozen=True):
    """How a process ended. `code` is None when its time ran out; a negative code is the signal that ended it."""

    output: str
    code: int | None
    cut: bool = False


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a command gets of our environment: nothing whose name or value looks like a secret.

    This Python's folder comes first on the PATH, so `python` is the notebook's own.

    >>> env = environment({"PATH": "/bin", "OPENAI_API_KEY": "x", "DB": "pg://me:pw@host/db"})
    >>> sorted(env)
    ['GIT_PAGER', 'GIT_TERMINAL_PROMPT', 'PAGER', 'PATH']
    """
    env = {k: v for k, v in given.items() if not _SECRET_NAME.search(k) and not _SECRET_VALUE.search(v)}
    env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), env.get("PATH", os.defpath)])
    return env | {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


async def run(argv: Sequence[str], cwd: Path, timeout: float) -> Finished:
    """Run to the end, with stdout and stderr as one text. When this is cancelled or `timeout` seconds
    are over, the whole process group is killed; what a finished command left running is killed too."""
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    kept = bytearray()
    drain = asyncio.create_task(_drain(reading, kept))
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            code = await process.wait()
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # A child that left the group may still hold the pipe: it must not hold us.
        await asyncio.wait({drain}, timeout=1)
        drain.cancel()
    cut = len(kept) > MAX_OUTPUT
    return Finished(kept[:MAX_OUTPUT].decode("utf-8", "replace"), code, cut)


async def _drain(fd: int, kept: bytearray) -> None:
    """Read to the end of the pipe; keep one byte more than is shown, as the mark that there was more."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    try:
        while chunk := await reader.read(65_536):
            kept += chunk[: MAX_OUTPUT + 1 - len(kept)]
    finally:
        transport.close()
