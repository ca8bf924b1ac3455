from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nova_nb.errors import NotASession, SessionNotFound
from nova_nb.foreign import inspect_log
from nova_nb.session import Session
from tests.conftest import shared
from tests.foreign.captured import atoms, wire, without_system


def opened(path: Path, session_id: str | None = None) -> Session:
    return Session(inspect_log.read(path, session_id), inspect_log)


def samples_of(path: Path) -> dict[str, dict[str, Any]]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as z:
            found = [json.loads(z.read(n)) for n in z.namelist() if n.startswith("samples/")]
    else:
        found = json.loads(path.read_text())["samples"]
    return {f"{s['id']}_epoch_{s['epoch']}": s for s in found}


def in_place(value: Any, attachments: dict[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("attachment://"):
        return attachments[value.removeprefix("attachment://")]
    if isinstance(value, list):
        return [in_place(v, attachments) for v in value]
    return {k: in_place(v, attachments) for k, v in value.items()} if isinstance(value, dict) else value


def said(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Inspect's own messages in the words of the comparison."""
    rows = []
    for m in messages:
        calls = [
            {"id": c["id"], "function": {"name": c["function"], "arguments": c["arguments"]}} for c in m.get("tool_calls") or []
        ]
        content = m["content"]
        if m["role"] == "tool" and not content and m.get("error"):
            content = m["error"]["message"]
        rows.append({**m, "content": content, "tool_calls": calls})
    return atoms(without_system(rows))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "calls"), [("browser-2025-05.json", 5), ("message-dedup.eval", 6), ("docent-intercode-ctf.eval", 147)]
)
def test_each_call_has_exactly_the_recorded_input(name: str, calls: int) -> None:
    path = shared(f"samples/inspect/{name}")
    found = 0
    for id, sample in samples_of(path).items():
        session = opened(path, id)
        models = [e for e in sample["events"] if e["event"] == "model"]
        assert len(models) == len(session.steps)
        for step, event in zip(session.steps, models, strict=True):
            request = session.request(step=step.number)
            pool = sample.get("message_pool") or []
            given = event["input"] or [m for a, b in event.get("input_refs", []) for m in pool[a:b]]
            given = in_place(given, sample["attachments"])
            assert request.basis == "recorded"
            assert atoms(without_system(request.messages)) == said(given)
            if event.get("call"):
                assert wire(request.body) == wire(in_place(event["call"]["request"], sample["attachments"]))
            found += 1
    assert found >= calls


def test_long_texts_and_shared_messages_are_put_back_in_place(tmp_path: Path) -> None:
    pool = [{"id": "a", "role": "user", "content": "attachment://h1"}, {"id": "b", "role": "assistant", "content": "Yes."},
            {"id": "c", "role": "user", "content": "And?"}]  # fmt: skip
    events = [model([], [[0, 1]], "Yes.", "b"), model([], [[0, 1], [2, 3]], "No.", "d")]
    sample = {
        "id": 1,
        "epoch": 1,
        "messages": pool,
        "events": events,
        "message_pool": pool,
        "attachments": {"h1": "Long text."},
    }
    session = opened(archive(tmp_path / "a.eval", {"samples/1_epoch_1.json": sample}))
    assert [[b["text"] for m in session.request(step=n).messages for b in m["content"]] for n in (1, 2)] == [
        ["Long text."],
        ["Long text.", "And?"],
    ]


def model(given: list[Any], refs: list[list[int]], answer: str, id: str) -> dict[str, Any]:
    message = {"id": id, "role": "assistant", "content": answer}
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    return {
        "event": "model",
        "model": "m",
        "input": given,
        "input_refs": refs,
        "output": {"choices": [{"message": message}], "usage": usage},
    }


def archive(path: Path, members: dict[str, Any], header: str = "header.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(header, json.dumps({"version": 2, "eval": {"packages": {"inspect_ai": "0.3.1"}}}))
        for name, value in members.items():
            z.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def test_a_run_that_never_finished_opens_by_its_journal(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", {"samples/x_epoch_1.json": {"id": "x", "events": []}}, "_journal/start.json")
    assert inspect_log.sniff(path, path.read_bytes())
    assert opened(path).log.source.agent_version == "0.3.1"


def test_each_sample_is_a_session_and_the_last_one_written_is_opened(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", {f"samples/{n}_epoch_1.json": {"id": n, "events": []} for n in ("b", "a")})
    assert [i.session_id for i in inspect_log.list_sessions(path)] == ["b_epoch_1", "a_epoch_1"]
    assert opened(path).log.source.session_id == "a_epoch_1"
    with pytest.raises(SessionNotFound, match="no sample z"):
        opened(path, "z")


def test_a_member_that_unpacks_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_log, "MEMBER_LIMIT", 1000)
    path = archive(tmp_path / "a.eval", {"samples/a_epoch_1.json": b"[" + b" " * 100_000 + b"]"})
    log = inspect_log.read(path)
    assert log.events == [] and "more than 1000 bytes" in log.damage[0].message


def test_a_broken_archive_is_one_clear_sentence(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", {"samples/a_epoch_1.json": {"id": "a"}})
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(NotASession, match=r"a\.eval: the archive cannot be read"):
        inspect_log.read(path)


def test_calls_of_scorers_and_of_agents_used_as_tools_are_told_apart(tmp_path: Path) -> None:
    spans = [span("s", None, "solvers"), span("t", "s", "tool"), span("g", "t", "agent"), span("c", None, "scorers")]
    calls = [{**model([{"role": "user", "content": "x"}], [], "y", i), "span_id": i} for i in ("s", "g", "c")]
    graded = {**model([{"role": "user", "content": "x"}], [], "y", "r"), "role": "grader"}
    sample = {"id": "a", "epoch": 1, "events": [*spans, *calls, graded], "messages": []}
    session = opened(archive(tmp_path / "a.eval", {"samples/a_epoch_1.json": sample}))
    assert [s.kind for s in session.steps] == ["main", "subagent", "score", "grader"]


def span(id: str, parent: str | None, type: str) -> dict[str, Any]:
    return {"event": "span_begin", "id": id, "parent_id": parent, "type": type, "name": type}
