from __future__ import annotations

import json
from pathlib import Path

import pytest

from nova_nb.foreign import mini_swe_agent
from nova_nb.foreign.mini_swe_agent import sniff
from nova_nb.session import Session, open_session
from tests.conftest import shared
from tests.foreign.captured import Tally, capture, check, scenarios


def opened(path: Path) -> Session:
    return Session(mini_swe_agent.read(path), mini_swe_agent)


@pytest.mark.shared
def test_every_captured_request_is_rebuilt_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    for folder in scenarios("mini-swe-agent-2.4.6"):
        rows = capture(folder)
        for n, path in enumerate(sorted((folder / "session").glob("*.traj.json")), 1):
            session = opened(path)
            own = [r for r in rows if r["process"] == n]
            check(tally, session, own, f"{folder.name}/{path.name}")
    with capsys.disabled():
        print(tally.table("\nmini-swe-agent 2.4.6"))
    assert tally.total("exact") >= 13 and not tally.wrong, tally.table("mini-swe-agent")


RUN = {
    "info": {"model_stats": {"api_calls": 2}, "config": {"agent": {}, "model": {}, "environment": {}}, "mini_version": "2.4.6"},
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
            "function_call": None,
            "extra": {"response": {"id": "r1", "model": "fake", "usage": {"prompt_tokens": 100, "completion_tokens": 9,
                      "prompt_tokens_details": {"cached_tokens": 64}}}, "timestamp": 1796064003.5},
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"raw_output": "a.py"}},
        {"role": "user", "content": "Tool call error", "extra": {"interrupt_type": "FormatError", "response": {"id": "r2"}}},
        {"role": "exit", "content": "too long", "extra": {"exit_status": "ContextWindowExceededError", "exception_str": "400"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}  # fmt: skip


def test_calls_are_found_where_the_log_keeps_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN, indent=1))
    session = opened(path)
    assert [s.record for s in session.steps] == ["m3", "m5", "m6"]
    assert [len(session.request(step=n).body["messages"]) for n in (1, 2, 3)] == [2, 4, 5]
    usage = session.steps[0].usage
    assert usage is not None and (usage.input, usage.cache_read, usage.output) == (36, 64, 9)


def test_what_the_agent_keeps_for_itself_is_not_in_the_request(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN))
    request = opened(path).request()
    assert request.system == [{"type": "text", "text": "You help."}]
    assert [m["role"] for m in request.messages] == ["user", "assistant", "user", "user"]
    assert "extra" not in str(request.body) and "too long" not in str(request.body)
    assert request.body["messages"][2] == {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
    }


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    text = json.dumps(RUN, indent=1)
    path.write_text(text)
    log = mini_swe_agent.read(path)
    line = log.line("m4")
    assert line is not None
    assert '"role": "tool"' in text.split("\n")[line]


def test_a_cut_file_keeps_what_stands_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    text = json.dumps(RUN)
    path.write_text(text[: text.index("Tool call error")])
    log = mini_swe_agent.read(path)
    assert [d.kind for d in log.damage] == ["torn"]
    assert len(mini_swe_agent.conversation(log)) >= 3


@pytest.mark.shared
@pytest.mark.parametrize("name", ["github_issue.traj.json", "harbor-rfc-mini-swe-agent-trajectory.json"])
def test_samples_of_version_one_open(name: str) -> None:
    path = shared(f"samples/mini-swe-agent/{name}")
    assert sniff(path, path.read_bytes()[:65536])
    session = open_session(path)
    assert session.log.source.format == "mini-swe-agent"
    assert len(session.steps) >= 3 and not session.log.damage
    assert session.request(step=2).messages[0]["role"] == "user"
