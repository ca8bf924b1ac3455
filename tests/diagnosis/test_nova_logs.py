"""Nova's own sessions: healthy ones are clear, and what broke in one is named, repaired where that is safe, else left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nova_nb as nova
from nova_nb.agent.kernel import AgentKernel
from nova_nb.diagnosis.repair import repair
from nova_nb.diagnosis.report import Diagnosis
from nova_nb.errors import ModelError
from nova_nb.history.events import Failure, Note
from nova_nb.history.reading import decode
from nova_nb.ids import Fixed
from tests.agent.scripted import Scripted, call, calls

DUMP = calls(call("t1", "run_command", command="seq 1 30000"))
READ = calls(call("t2", "read_file", path="orders.py"))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., AgentKernel]:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "orders.py").write_text("def total(rows):\n    return sum(rows)\n")

    def kernel(*script: Any) -> AgentKernel:
        return AgentKernel(root, Scripted(*script), home=tmp_path / "home", ids=Fixed(), permission="allow")

    return kernel


def log_of(kernel: AgentKernel) -> Path:
    assert kernel.live.directory is not None
    return kernel.live.directory / "log.jsonl"


def codes(report: Diagnosis) -> list[tuple[str, str]]:
    return [(f.layer, f.code) for f in report.causes]


async def worked(make: Callable[..., AgentKernel]) -> AgentKernel:
    kernel = make(DUMP, READ, "All fine.", "Still fine.")
    await kernel.ask("All timestamps are stored in UTC. Look around.")
    await kernel.ask("Go on.")
    kernel.close()
    return kernel


async def test_a_healthy_session_is_clear(make: Callable[..., AgentKernel]) -> None:
    report = nova.open_session(log_of(await worked(make))).diagnose()
    assert (report.verdict, report.findings) == ("clear", ())


async def test_a_changed_line_is_named_and_no_repair_pretends_to_know_it(
    make: Callable[..., AgentKernel], tmp_path: Path
) -> None:
    log = log_of(await worked(make))
    log.write_bytes(log.read_bytes().replace(b"stored in UTC", b"stored in CET"))
    session = nova.open_session(log)
    report = session.diagnose()
    assert codes(report) == [("log", "checksum-line")]
    assert report.causes[0].lines == (2,)
    done = repair(session, tmp_path / "copy.jsonl")
    assert done.path is None
    assert any("line 2" in text for text in done.not_dared)


async def test_spliced_and_nul_lines_are_repaired_with_checksums_that_hold(
    make: Callable[..., AgentKernel], tmp_path: Path
) -> None:
    log = log_of(await worked(make))
    lines = log.read_bytes().split(b"\n")
    lines[3:5] = [lines[3] + lines[4]]
    lines.insert(6, b"\0" * 400)
    log.write_bytes(b"\n".join(lines))
    session = nova.open_session(log)
    report = session.diagnose()
    assert {layer for layer, _ in codes(report)} == {"log"}
    assert {line for f in report.causes for line in f.lines} == {4, 7}
    done = repair(session, tmp_path / "copy.jsonl")
    assert done.path is not None
    copy = nova.open_session(done.path)
    assert copy.log.damage == []
    assert [e.id for e in copy.log.events] == [e.id for e in session.log.events]
    assert all(decode(line)[1] == "" for line in Path(done.path).read_bytes().splitlines())


async def test_a_torn_last_line_is_a_note(make: Callable[..., AgentKernel]) -> None:
    log = log_of(await worked(make))
    log.write_bytes(log.read_bytes()[:-30])
    report = nova.open_session(log).diagnose()
    assert (report.verdict, [f.code for f in report.findings]) == ("clear", ["torn-line"])


@pytest.mark.parametrize(("do", "code"), [("remove", "stored-result-gone"), ("cut", "stored-result-changed")])
async def test_a_stored_result_that_is_not_what_was_written(make: Callable[..., AgentKernel], do: str, code: str) -> None:
    log = log_of(await worked(make))
    (file,) = (log.parent / "tool-results").glob("*.txt")
    file.unlink() if do == "remove" else os.truncate(file, 1_000)
    assert codes(nova.open_session(log).diagnose()) == [("artifact", code)]


async def test_a_process_that_died_in_a_call_leaves_it_without_a_result(make: Callable[..., AgentKernel]) -> None:
    log = log_of(await worked(make))
    lines = log.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"tool_started"' in line and b'"t2"' in line)
    log.write_bytes(b"".join(lines[: at + 1]))
    assert codes(nova.open_session(log).diagnose()) == []
    kernel = AgentKernel.resume(log.parent, model=Scripted("Where was I?"), ids=Fixed(start=9_000))
    await kernel.ask("Go on.")
    kernel.close()
    report = nova.open_session(log).diagnose()
    assert codes(report) == [("pairing", "call-without-result")]
    assert b'"t2"' in lines[report.causes[0].lines[0] - 1]


async def test_a_refused_request_is_a_cause_until_one_is_answered(make: Callable[..., AgentKernel]) -> None:
    kernel = make(ModelError("the key was \x1b[31mrefused"), "Now it works.")
    with pytest.raises(ModelError):
        await kernel.ask("Hello.")
    (cause,) = nova.open_session(log_of(kernel)).diagnose().causes
    assert (cause.layer, cause.code) == ("provider", "request-refused")
    assert "the key was" in cause.message
    assert "\x1b" not in cause.message
    await kernel.ask("Again.")
    report = nova.open_session(log_of(kernel)).diagnose()
    assert (report.verdict, [f.code for f in report.findings]) == ("clear", ["request-refused"])
    kernel.close()


@pytest.mark.parametrize(("times", "codes_of_causes"), [(2, []), (3, [("budget", "breaker-open")])])
async def test_compactions_that_fail_open_the_breaker(
    make: Callable[..., AgentKernel], times: int, codes_of_causes: list[tuple[str, str]]
) -> None:
    kernel = make("Fine.")
    await kernel.ask("Hello.")
    for n in range(times):
        kernel.live.append(Failure(id=f"f{n}", part="compaction", message="the summary came back empty"))
    report = nova.open_session(log_of(kernel)).diagnose()
    assert codes(report) == codes_of_causes
    assert any("the summary came back empty" in f.message for f in report.findings)
    kernel.close()


async def test_a_stopped_compaction_and_a_full_disk_are_said(make: Callable[..., AgentKernel]) -> None:
    kernel = make("Fine.")
    await kernel.ask("Hello.")
    kernel.live.append(Failure(id="f1", part="spill", message="the result of t1 could not be written (No space left)"))
    kernel.live.append(Note(id="n1", kind="compaction-stopped", message="it refills"))
    report = nova.open_session(log_of(kernel)).diagnose()
    assert [(f.layer, f.code, f.role) for f in report.findings] == [
        ("budget", "compaction-stopped", "cause"),
        ("artifact", "spill-failed", "note"),
    ]
    kernel.close()
