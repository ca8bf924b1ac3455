"""What a Nova log records of its own failures: a compaction, a refused request, a result that could not be stored.

Knows: `Failure` and `Note` events, and whether the session got over them: what was answered or
compacted afterwards is worth a note, what was not is a cause. Only Nova writes such events.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import UsageError
from ...history.artifacts import Artifacts
from ...history.events import CompactionBoundaryCreated, Failure, Note, ReplyReceived, SessionStarted, ToolResultExternalized
from ...settings import settings_from
from ..facts import Facts
from ..report import Finding, many, one_line


def compactions_failed(facts: Facts) -> Iterator[Finding]:
    """Compactions that failed in a row; as many as open the breaker, and nothing was compacted since, are a cause."""
    failed: list[int] = []
    for i, event in enumerate(facts.events if facts.of(Failure) else ()):
        if isinstance(event, Failure) and event.part == "compaction":
            failed.append(i)
        elif isinstance(event, CompactionBoundaryCreated):
            if failed:
                yield _got_over(facts, failed)
            failed = []
    if not failed:
        return
    first = facts.events[0]
    limit = settings_from(first.settings if isinstance(first, SessionStarted) else {}).breaker_failures
    if len(failed) < limit:
        yield _got_over(facts, failed)
        return
    yield facts.finding(
        "breaker-open", "budget", "cause", failed,
        f"{len(failed)} compactions in a row failed, the last one at line {facts.log.lines[failed[-1]]} ({_why(facts, failed[-1])}); from "
        f"{limit} on Nova asks for no further summary before the hard limit",
        fate="intact", remedy="nothing was lost: compact by hand once the reason is gone, or fold what fills the window",
    )  # fmt: skip


def _got_over(facts: Facts, failed: list[int]) -> Finding:
    return facts.finding(
        "compaction-failed", "budget", "note", failed,
        f"{many(len(failed), 'compaction')} failed without a loss, the last one at line {facts.log.lines[failed[-1]]} ({_why(facts, failed[-1])})",
        fate="intact",
    )  # fmt: skip


def compaction_stopped(facts: Facts) -> Iterator[Finding]:
    """Compaction was stopped, since the window refilled at once each time."""
    stopped = [i for i, note in facts.of(Note) if note.kind == "compaction-stopped"]
    if stopped:
        yield facts.finding(
            "compaction-stopped", "budget", "cause", stopped[-1:],
            f"compaction was stopped at line {facts.log.lines[stopped[-1]]}, because the window filled again right after each one",
            fate="intact", remedy="rewind to before what fills it, fold it, or use a larger window",
        )  # fmt: skip


def refused(facts: Facts) -> Iterator[Finding]:
    """Requests that the provider refused. One that nothing was answered after is a cause."""
    failed = [i for i, failure in facts.of(Failure) if failure.part == "provider"]
    answered = max((i for i, _ in facts.of(ReplyReceived)), default=-1)
    if not failed:
        return
    last = failed[-1]
    if last < answered:
        yield facts.finding(
            "request-refused", "provider", "note", failed,
            f"{many(len(failed), 'request')} got no answer, the last one at line {facts.log.lines[last]} ({_why(facts, last)}); later ones did",
            fate="intact",
        )  # fmt: skip
    else:
        since = [i for i in failed if i > answered]
        yield facts.finding(
            "request-refused", "provider", "cause", since,
            f"the request at line {facts.log.lines[last]} got no answer ({_why(facts, last)}), and none was answered since",
            fate="intact", remedy="the log is whole: set right what the message names, resume, and ask again",
        )  # fmt: skip


def result_not_stored(facts: Facts) -> Iterator[Finding]:
    """Large results that could not be written to a file and went into the request as they were."""
    failed = [i for i, failure in facts.of(Failure) if failure.part == "spill"]
    if failed:
        yield facts.finding(
            "spill-failed", "artifact", "note", failed,
            f"{many(len(failed), 'large result')} could not be written to a file ({_why(facts, failed[-1])}) and went into the request whole",
            fate="intact", remedy="free space or repair the disk: such results fill the window faster",
        )  # fmt: skip


def stored_by_nova(facts: Facts) -> Iterator[Finding]:
    """Files of stored results on the branch that are gone, or are not what was written."""
    if facts.log.source.format != "nova":
        return
    here = Path(facts.session.path)
    artifacts = Artifacts(here if here.is_dir() else here.parent)
    blocks = (block for i in facts.path if (m := facts.message(i)) is not None for block in m.content)
    wanted = {block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"}
    for i, event in facts.of(ToolResultExternalized):
        if event.tool_use_id not in wanted:
            continue
        state = _state(artifacts, event)
        if state == "present":
            continue
        what = (
            "is gone" if state == "missing" else "is not what was written" if state == "changed" else "lies outside the session"
        )
        yield facts.finding(
            f"stored-result-{'gone' if state == 'missing' else state}", "artifact", "cause", [i],
            f"the file with the result of line {facts.log.lines[i]} ({event.chars:,} characters) {what}; the model saw the preview only",
            fate="lost", remedy="run the command again if its output is needed",
        )  # fmt: skip


def _state(artifacts: Artifacts, event: ToolResultExternalized) -> str:
    try:
        return artifacts.state(event.artifact, event.sha256)
    except UsageError:
        return "outside"
    except OSError:
        return "missing"


def _why(facts: Facts, i: int) -> str:
    """What the failure said, as a part of a sentence: one line, printable, and not long."""
    event = facts.events[i]
    return f"“{one_line(' '.join(event.message.split()), 160)}”" if isinstance(event, Failure) else "unknown"
