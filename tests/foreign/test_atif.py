from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nova_nb.foreign import atif
from nova_nb.session import Session, open_session
from tests.conftest import shared


def opened(path: Path) -> Session:
    return Session(atif.read(path), atif)


def write(path: Path, steps: list[dict[str, Any]], **more: Any) -> Path:
    document = {
        "schema_version": "ATIF-v1.5",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": steps,
    }
    path.write_text(json.dumps({**document, **more}, indent=1))
    return path


def said(session: Session, step: int | None = None) -> list[list[str]]:
    return [
        [m["role"], *(str(b.get("text", b.get("content", b.get("name")))) for b in m["content"])]
        for m in session.request(step=step).messages
    ]


TASK = {"step_id": 1, "source": "user", "message": "Fix."}
CALL = {"step_id": 2, "source": "agent", "message": "Looking.", "reasoning_content": "Hm.",
        "tool_calls": [{"tool_call_id": "c", "function_name": "ls", "arguments": {"p": "."}}],
        "observation": {"results": [{"source_call_id": "c", "content": "a.py"}]},
        "metrics": {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 5}}  # fmt: skip
DONE = {"step_id": 3, "source": "agent", "message": "Done.", "metrics": {"prompt_tokens": 120, "completion_tokens": 2}}


def test_an_agent_step_is_an_answer_and_the_results_of_its_calls(tmp_path: Path) -> None:
    session = opened(write(tmp_path / "t.json", [TASK, CALL, DONE]))
    assert [s.record for s in session.steps] == ["2", "3"]
    messages = session.request(step=2).messages
    assert [[b["type"] for b in m["content"]] for m in messages] == [
        ["text"],
        ["thinking", "text", "tool_use"],
        ["tool_result"],
    ]
    usage = session.steps[0].usage
    assert usage is not None and (usage.input, usage.cache_read, usage.context) == (40, 60, 100)


def test_an_output_that_names_no_call_stands_with_the_last_one(tmp_path: Path) -> None:
    calls = [{"tool_call_id": c, "function_name": "bash", "arguments": {}} for c in ("c", "d")]
    step = {**CALL, "tool_calls": calls, "observation": {"results": [{"content": "out"}]}}
    results = opened(write(tmp_path / "t.json", [TASK, step, DONE])).request(step=2).messages[-1]["content"]
    assert [(b["tool_use_id"], b["content"]) for b in results] == [("c", ""), ("d", [{"type": "text", "text": "out"}])]


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [TASK, CALL, DONE])
    line = atif.read(path).line("3")
    assert line is not None and '"step_id": 3' in path.read_text().split("\n")[line]


def test_copied_context_is_in_the_request_and_no_call_of_this_file(tmp_path: Path) -> None:
    session = opened(write(tmp_path / "t.json", [TASK, {**CALL, "is_copied_context": True, "metrics": None}, DONE]))
    assert [s.record for s in session.steps] == ["3"]
    assert len(session.request(step=1).messages) == 3


def refer(*names: str) -> dict[str, Any]:
    refs = [{"session_id": f"s-{n}", "trajectory_path": f"trajectory.{n}.json"} for n in names]
    return {
        "step_id": 3,
        "source": "system",
        "message": "Summarised.",
        "observation": {"results": [{"subagent_trajectory_ref": refs}]},
    }


def handoff(folder: Path, session: str = "s-q-questions") -> None:
    steps = [
        {"step_id": 1, "source": "user", "message": "Pick up: did ls."},
        {"step_id": 2, "source": "agent", "message": "Where?"},
    ]
    write(folder / "trajectory.q-questions.json", steps, session_id=session)


AFTER = [{"step_id": 4, "source": "user", "message": "Answers."}, {"step_id": 5, "source": "agent", "message": "Go."}]


def test_after_a_summarisation_the_model_sees_task_handoff_and_what_follows(tmp_path: Path) -> None:
    handoff(tmp_path)
    session = opened(write(tmp_path / "trajectory.json", [TASK, CALL, refer("q-questions"), *AFTER]))
    assert [(s.kind, s.record) for s in session.steps] == [("main", "2"), ("compact", "q-questions/2"), ("main", "5")]
    assert said(session, 3) == [["user", "Fix."], ["user", "Pick up: did ls."], ["assistant", "Where?"], ["user", "Answers."]]
    assert [p.state for p in session.projection(3).pieces] == ["whole", "summary", "summary", "whole"]
    assert session.steps[2].basis == "rebuilt"
    assert set(session.projection().left) == {"2", "2-results"}


def test_a_handoff_that_is_missing_or_of_another_run_is_named_not_guessed(tmp_path: Path) -> None:
    steps = [TASK, CALL, refer("q-questions"), *AFTER]
    session = opened(write(tmp_path / "trajectory.json", steps))
    assert session.steps[-1].basis == "partial" and "handoff" in session.request(step=2).unknown[0]
    handoff(tmp_path, session="another run")
    assert opened(tmp_path / "trajectory.json").steps[-1].basis == "partial"


def test_no_reference_leaves_the_folder_or_goes_round(tmp_path: Path) -> None:
    handoff(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    escape = refer("q-questions")
    escape["observation"]["results"][0]["subagent_trajectory_ref"][0]["trajectory_path"] = "../trajectory.q-questions.json"
    session = opened(write(inner / "trajectory.json", [TASK, CALL, escape, *AFTER]))
    assert [s.kind for s in session.steps] == ["main", "main"]
    itself = refer("x")
    write(tmp_path / "trajectory.x.json", [TASK, DONE, itself], session_id="s-x")
    assert len(opened(write(tmp_path / "trajectory.json", [TASK, CALL, itself])).steps) == 2


def test_trajectories_of_subagents_may_be_embedded(tmp_path: Path) -> None:
    inner = {"trajectory_id": "t1", "steps": [TASK, {"step_id": 2, "source": "agent", "message": "Sub."}]}
    call = {
        **CALL,
        "observation": {
            "results": [{"source_call_id": "c", "content": "a", "subagent_trajectory_ref": [{"trajectory_id": "t1"}]}]
        },
    }
    session = opened(write(tmp_path / "t.json", [TASK, call, DONE], subagent_trajectories=[inner]))
    assert [s.kind for s in session.steps] == ["main", "subagent", "main"]
    assert said(session, 3)[-1] == ["user", "a"]


@pytest.mark.shared
def test_the_summarised_golden_gives_what_its_linear_twin_recorded() -> None:
    """The linear file of the same run holds the context after the handoff step by step."""
    folder = shared("samples/atif/terminus2")
    split = open_session(folder / "hello-world-context-summarization.trajectory.json")
    linear = open_session(folder / "hello-world-context-summarization-linear-history.trajectory.cont-1.json")
    assert split.log.source.format == linear.log.source.format == "atif"
    assert [s.kind for s in split.steps] == ["main"] * 3 + ["compact"] * 3 + ["main"] * 4
    assert said(split, 7) == said(linear, 1)


@pytest.mark.shared
def test_a_copy_never_takes_the_trajectories_of_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    shutil.copytree(shared("samples/atif/terminus2"), folder)
    session = opened(folder / "hello-world-context-summarization-linear-history.trajectory.json")
    assert [s.kind for s in session.steps] == ["main"] * 3
    assert any("goes on in" in u for u in session.request().unknown)


@pytest.mark.shared
def test_every_sample_opens() -> None:
    for path in sorted(shared("samples/atif").rglob("*.json")):
        session = open_session(path)
        assert session.log.source.format == "atif" and not session.log.damage
        for step in session.steps:
            assert session.request(step=step.number).messages
