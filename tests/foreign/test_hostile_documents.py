"""Broken and spiteful files of the formats that are whole documents or databases: nothing raises, the rest is kept."""

from __future__ import annotations

import copy
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_nb.errors import NovaError
from nova_nb.foreign import (
    atif,
    cline,
    inspect_log,
    langgraph,
    letta,
    mini_swe_agent,
    openai_agents,
    openhands,
    request_body,
    swe_agent,
)
from nova_nb.projection.pieces import messages_of
from nova_nb.projection.request import Request
from tests.foreign import test_atif as a
from tests.foreign import test_cline as c
from tests.foreign import test_inspect_log as i
from tests.foreign import test_langgraph as g
from tests.foreign import test_letta as le
from tests.foreign import test_mini_swe_agent as m
from tests.foreign import test_openai_agents as o
from tests.foreign import test_openhands as h
from tests.foreign import test_request_body as r
from tests.foreign import test_swe_agent as s

V0 = [{"id": 0, "source": "agent", "action": "system", "args": {"content": "You help."}},
      {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix."}},
      {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls"}, "tool_call_metadata": {"tool_call_id": "c", "function_name":
       "bash", "model_response": {"id": "r", "choices": [{"message": {"content": "Hm.", "tool_calls": [{"id": "c", "function": {"arguments":
       "{}"}}]}}], "usage": {"prompt_tokens": 5}}}},
      {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "a.py", "tool_call_metadata": {"tool_call_id": "c"}},
      {"id": 4, "source": "agent", "action": "condensation", "args": {"forgotten_event_ids": [2, 3], "summary": "Did ls.",
       "summary_offset": 2}}]  # fmt: skip
POOL = [{"id": "x", "role": "user", "content": "attachment://h"}, {"id": "y", "role": "tool", "tool_call_id": "c", "content": "",
        "error": {"message": "no"}}]  # fmt: skip
SAMPLE = {"id": 1, "epoch": 1, "messages": POOL, "events": [i.model([], [[0, 2]], "Yes.", "b"), i.span("s", None, "solvers")],
          "message_pool": POOL, "attachments": {"h": "Long."}}  # fmt: skip
EVAL = {"version": 2, "eval": {"packages": {}}, "plan": {}, "samples": [SAMPLE]}
ATIF = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "a"}, "steps": [a.TASK, a.CALL, a.refer("q"), *a.AFTER],
        "subagent_trajectories": [{"session_id": "s-q", "steps": [a.TASK, a.DONE]}]}  # fmt: skip
TRAJ = {"trajectory": [{**s.STEPS[0], "query": s.ROWS[:2]}, s.STEPS[1]], "history": s.ROWS, "info": {}, "replay_config": "{}"}

DOCUMENTS: dict[str, tuple[Any, Any]] = {
    "mini": (mini_swe_agent, m.RUN),
    "openhands-v0": (openhands, V0),
    "inspect": (inspect_log, EVAL),
    "swe-agent": (swe_agent, TRAJ),
    "letta": (letta, {"agents": [le.AGENT]}),
    "atif": (atif, ATIF),
    "cline": (
        cline,
        {
            "version": 1,
            "sessionId": "s",
            "system_prompt": "You help.",
            "messages": [
                *c.TALK[:2],
                {
                    **c.TALK[2],
                    "id": "x",
                    "metadata": {"kind": "compaction", "usageBefore": {"inputTokens": 3}},
                    "metrics": {"inputTokens": 5},
                },
                *c.TALK[3:],
            ],
        },
    ),
    "roo": (cline, [{**c.TALK[0], "condenseParent": "k"}, {**c.TALK[1], "isSummary": True, "condenseId": "k"}, *c.TALK[2:]]),
    "anthropic": (request_body, r.ANTHROPIC),
    "chat": (request_body, {**r.CHAT, "response": {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}}),
    "responses": (request_body, r.RESPONSES),
    "gemini": (request_body, r.GEMINI),
}

SPITE: list[Any] = [
    None,
    0,
    -1,
    10**30,
    1e308,
    True,
    "",
    "x",
    "\ud800",
    "\x00",
    "../../etc/passwd",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    [1, 2],
]
few = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def asked(format: Any, path: Path, session: str | None = None) -> int:
    """Asks everything a format answers; the number of conversation records."""
    try:
        format.list_sessions(path)
        log = format.read(path, session)
    except NovaError:
        return 0
    ids = [e.id for e in log.events]
    assert len(set(ids)) == len(ids) == len(log.lines)
    conversation = format.conversation(log)
    assert set(format.reachable(log)) <= set(ids)
    for alternative in format.leaf(log).alternatives:
        format.reachable(log, alternative.record)
    format.shown(log)
    steps = format.steps(log)
    for step in [None, *range(1, min(len(steps), 4) + 1)]:
        projection = format.project(log, step)
        body = format.body(log, projection, step)
        request = Request(messages_of(projection.pieces), projection.system, projection.tools, provider_body=body)
        assert request.hash and request.body is not None
    return len(conversation)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [path] if path else []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        out += places(value[key], (*path, key))
    return out


def spoiled(value: Any, path: tuple[Any, ...], with_: Any) -> Any:
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = with_
    return value


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_value_of_any_other_type_anywhere_raises_nothing(name: str, tmp_path: Path) -> None:
    format, document = DOCUMENTS[name]
    for n, path in enumerate(places(document)):
        for with_ in (SPITE[n % len(SPITE)], SPITE[(n * 7 + 3) % len(SPITE)], SPITE[(n * 5 + 11) % len(SPITE)]):
            file = tmp_path / "f.json"
            file.write_text(json.dumps(spoiled(document, path, with_)))
            asked(format, file)


@few
@given(data=st.data())
@pytest.mark.parametrize("name", DOCUMENTS)
def test_bytes_cut_swapped_doubled_or_filled_with_nul_raise_nothing(name: str, tmp_path: Path, data: st.DataObject) -> None:
    format, document = DOCUMENTS[name]
    raw = json.dumps(document, indent=data.draw(st.sampled_from([None, 1]))).encode()
    at = sorted(data.draw(st.lists(st.integers(0, len(raw)), min_size=3, max_size=3)))
    one, two, three, four = raw[: at[0]], raw[at[0] : at[1]], raw[at[1] : at[2]], raw[at[2] :]
    spoilt = data.draw(
        st.sampled_from(
            [one + two + three, one + three + two + four, one + two + two + three + four, one + bytes(len(two)) + three + four,
             one + b"\xff\xfe\xed\xa0\x80" + four, raw + raw, b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"\r\n"), one + b"[" * 3000 + four]
        )
    )  # fmt: skip
    file = tmp_path / "f.json"
    file.write_bytes(spoilt)
    format.sniff(file, spoilt[:65536])
    asked(format, file)


@few
@given(data=st.data())
def test_what_stands_before_a_cut_is_kept(tmp_path: Path, data: st.DataObject) -> None:
    rows = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n} \u2028 é"} for n in range(12)]
    text = json.dumps({**m.RUN, "messages": rows}, ensure_ascii=False)
    at = data.draw(st.integers(text.index('"messages"') + 12, len(text)))
    file = tmp_path / "f.json"
    file.write_bytes(text[:at].encode())
    whole = text[:at].count("é")
    assert asked(mini_swe_agent, file) >= whole - 1


@few
@given(data=st.data())
def test_a_conversation_folder_with_any_events_raises_nothing(tmp_path: Path, data: st.DataObject) -> None:
    events = [
        *h.TALK,
        h.user("u2", "o2", "And?"),
        h.event("k", "Condensation", "u2", forgotten_event_ids=["a1"], summary="S.", summary_offset=9),
    ]
    chosen = data.draw(st.lists(st.sampled_from(events), min_size=1, max_size=10))
    n = data.draw(st.integers(0, len(chosen) - 1))
    path = data.draw(st.sampled_from(places(chosen[n])))
    chosen[n] = spoiled(chosen[n], path, data.draw(st.sampled_from([*SPITE, "u2", "k", "k-summary"])))
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(json.dumps(e) for e in chosen))
    asked(openhands, file)


@few
@given(data=st.data())
def test_a_store_of_items_with_any_rows_raises_nothing(tmp_path: Path, data: st.DataObject) -> None:
    items: list[Any] = [
        o.USER,
        o.CALL,
        o.OUTPUT,
        o.REPLY,
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "reasoning", "summary": []},
    ]
    chosen = data.draw(st.lists(st.sampled_from(items), max_size=8))
    spite = st.one_of(st.sampled_from(SPITE).map(json.dumps), st.text(max_size=5))
    spoilt = [data.draw(st.one_of(st.just(x), spite)) for x in chosen]
    file = tmp_path / "s.db"
    file.unlink(missing_ok=True)
    o.store(file, [(n + 1, "a", x, o.T + "1") for n, x in enumerate(spoilt)]).close()
    asked(openai_agents, file)


def test_items_and_messages_with_a_value_of_any_other_type_raise_nothing(tmp_path: Path) -> None:
    items = [o.USER, o.CALL, o.OUTPUT, o.REPLY, {"type": "custom_tool_call", "call_id": "d", "input": "x", "id": "__fake_id__"}]
    for n, path in enumerate(places(items)):
        spoilt = spoiled(items, path, SPITE[(n * 5) % len(SPITE)])
        file = tmp_path / f"{n}.db"
        o.store(file, [(k + 1, "a", json.dumps(x), o.T + "1") for k, x in enumerate(spoilt)]).close()
        asked(openai_agents, file)
    messages = [g.ASK, g.CALLS, *g.RESULTS, g.DONE]
    for n, path in enumerate(places(messages)):
        with_ = SPITE[(n * 3 + 1) % len(SPITE)]
        spoilt = spoiled(messages, path, "lone" if with_ == "\ud800" or (isinstance(with_, int) and with_ > 2**63) else with_)
        states = [{"id": "1", "parent": None, "messages": [messages[0]]}, {"id": "2", "parent": "1", "messages": spoilt}]
        try:
            file = g.store(tmp_path / f"{n}.sqlite", states)
        except (KeyError, TypeError):  # a message without a class cannot be packed by the test
            continue
        asked(langgraph, file)


@few
@given(data=st.data())
def test_checkpoints_with_any_messages_and_parents_raise_nothing(tmp_path: Path, data: st.DataObject) -> None:
    said = [
        g.ASK,
        g.CALLS,
        *g.RESULTS,
        g.DONE,
        {**g.DONE, "content": "Other."},
        {**g.ASK, "id": None},
        {**g.CALLS, "tool_calls": [None, 3]},
    ]
    ids = st.sampled_from(["1", "2", "3", "4", "zz"])
    states = [
        {
            "id": str(n),
            "parent": data.draw(st.one_of(st.none(), ids)),
            "messages": data.draw(st.lists(st.sampled_from(said), max_size=5)),
            "texts": data.draw(st.sampled_from([{}, {"summary": "S."}])),
            "source": data.draw(st.sampled_from(["loop", "input", "update"])),
        }
        for n in range(1, 5)
    ]
    file = tmp_path / "c.sqlite"
    file.unlink(missing_ok=True)
    asked(langgraph, g.store(file, states))


@few
@given(data=st.data())
def test_a_database_with_any_bytes_changed_raises_nothing(tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "c.sqlite"
    file.unlink(missing_ok=True)
    raw = bytearray(g.store(file, g.RUN).read_bytes())
    at = data.draw(st.integers(16, len(raw) - 1))
    raw[at : at + data.draw(st.integers(1, 64))] = data.draw(st.binary(min_size=1, max_size=64))
    file.write_bytes(bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) // 2, at]))]))
    for format in (langgraph, openai_agents):
        if format.sniff(file, bytes(raw[:65536])):
            asked(format, file)


def test_an_archive_of_a_later_version_is_one_clear_sentence(tmp_path: Path) -> None:
    raw = bytearray(i.archive(tmp_path / "a.eval", {"samples/1_epoch_1.json": SAMPLE}).read_bytes())
    raw[raw.index(b"PK\x01\x02") + 6] = 64
    file = tmp_path / "b.eval"
    file.write_bytes(bytes(raw))
    assert not inspect_log.sniff(file, bytes(raw[:65536]))
    with pytest.raises(NovaError, match="zip file version"):
        inspect_log.read(file)


@few
@given(data=st.data())
def test_an_archive_with_any_bytes_changed_raises_nothing(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(i.archive(tmp_path / "a.eval", {"samples/1_epoch_1.json": SAMPLE}).read_bytes())
    at = data.draw(st.integers(4, len(raw) - 1))
    raw[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    file = tmp_path / "b.eval"
    file.write_bytes(bytes(raw))
    inspect_log.sniff(file, bytes(raw[:65536]))
    asked(inspect_log, file)


def test_a_database_that_is_none_is_one_clear_sentence(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    file.write_bytes(b"SQLite format 3\0" + b"nonsense" * 200)
    assert not langgraph.sniff(file, file.read_bytes()) and not openai_agents.sniff(file, file.read_bytes())
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE t (a)")
    db.close()
    with pytest.raises(NovaError, match="no table with session_id"):
        openai_agents.read(tmp_path / "other.db")


def test_an_archive_in_a_packing_that_python_lacks_names_it(tmp_path: Path) -> None:
    path = i.archive(tmp_path / "a.eval", {"samples/1_epoch_1.json": SAMPLE})
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as z:
        at = z.getinfo("samples/1_epoch_1.json").header_offset
    central = raw.index(b"samples/1_epoch_1.json", at + 60) - 46
    changed = bytearray(raw)
    changed[at + 8 : at + 10] = changed[central + 10 : central + 12] = (93).to_bytes(2, "little")  # Zstandard
    path.write_bytes(bytes(changed))
    log = inspect_log.read(path)
    assert (log.damage and "cannot be unpacked" in log.damage[0].message) or log.events
