"""Layer "artifact": results that were written to a file of their own.

Knows: the placeholder that the model saw, the size it records, and what is at its path now. Looks
only whether a path exists and how large it is; the content is read nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..facts import Facts, once
from ..report import Finding
from ..stored import base_name, result_text

PLACEHOLDER = re.compile(
    r"<persisted-output>\s*Output too large \((?P<size>[\d.]+)\s?(?P<unit>[KMG]?B)\)\. Full output saved to: (?P<path>[^\n]+)"
)
UNITS = {"B": 1, "KB": 1_024, "MB": 1_048_576, "GB": 1_073_741_824}
VOLATILE = ("/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/dev/shm/")
OWN = "/projects/"
"""In the path of a result that lies in the agent's own store: gone with that store, and beside the file where it was copied to."""
SLACK = 0.9
"""A file may be this much smaller than the rounded size in the placeholder."""


def stored_results(facts: Facts) -> Iterator[Finding]:
    """A placeholder whose file is gone or shorter than recorded."""
    for i in facts.conversation:
        event = facts.message(i)
        if event is None or facts.side(i):
            continue
        for block in event.content:
            if block.get("type") != "tool_result":
                continue
            found = PLACEHOLDER.search(result_text(block.get("content")))
            if found:
                yield from _state(facts, i, found["path"].strip(), float(found["size"]) * UNITS[found["unit"]])


def _state(facts: Facts, i: int, path: str, size: float) -> Iterator[Finding]:
    failed = _failed_reads(facts, i, path)
    size_now = _size(facts, path)
    line = facts.log.lines[i]
    if size_now is not None and size_now < SLACK * size:
        yield facts.finding(
            "stored-result-cut", "artifact", "cause", [i, *failed],
            f"the placeholder at line {line} records a stored result of {size / 1024:,.0f} KB, but the file {base_name(path)} "
            f"has {size_now / 1024:,.0f} KB; what lies behind that is lost, the model saw the preview only",
            fate="lost", remedy="run the command again if its output is needed",
        )  # fmt: skip
    elif size_now is None and (failed or (path.startswith(VOLATILE) and OWN not in path)):
        why = "a later read of it failed" if failed else "it is in a folder that is emptied"
        yield facts.finding(
            "stored-result-gone", "artifact", "cause", [i, *failed],
            f"the result at line {line} was written to {path}, which is gone ({why}); the model saw only the preview",
            certainty="recorded" if failed else "inferred", fate="lost",
            remedy="run the command again if its output is needed; keep stored results beside the session",
        )  # fmt: skip
    elif size_now is None:
        yield facts.finding(
            "stored-result-elsewhere", "artifact", "note", [i],
            f"the stored result of line {line} is not beside this file; the log cannot tell whether it still exists where it was "
            "written", certainty="undecidable",
        )  # fmt: skip


def _size(facts: Facts, path: str) -> int | None:
    """Bytes of the stored file, beside the session or at its recorded path; None where there is none."""
    here = Path(facts.session.path)
    name = base_name(path)
    for candidate in (here.parent / here.stem / "tool-results" / name, Path(path)):
        try:
            if candidate.is_file():
                return candidate.stat().st_size
        except (OSError, ValueError):
            continue
    return None


@once
def _failed(facts: Facts) -> Iterator[tuple[str, int, int]]:
    """(input, position of the call, position of the result) of each call whose result is an error."""
    wrong: dict[str, int] = {}
    for i in facts.conversation:
        event = facts.message(i)
        for block in event.content if event is not None else ():
            if block.get("type") == "tool_result" and block.get("is_error"):
                wrong[str(block.get("tool_use_id"))] = i
    for i in facts.conversation if wrong else ():
        event = facts.message(i)
        for block in event.content if event is not None else ():
            if block.get("type") == "tool_use" and (result := wrong.get(str(block.get("id")))) is not None:
                yield str(block.get("input")), i, result


def _failed_reads(facts: Facts, since: int, path: str) -> list[int]:
    """Later calls on this path whose result is an error, with that result."""
    return [i for text, call, result in _failed(facts) if call > since and path in text for i in (call, result)]
