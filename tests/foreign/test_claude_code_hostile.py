"""Whatever happens to the bytes of a real session, it opens, it ends, and the rows that are whole are there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nova_nb as nova
from nova_nb.diagnosis.sets import four_sets
from nova_nb.errors import NotASession
from nova_nb.foreign import claude_code
from tests.foreign.claude_rows import Rows, call

CASES = Path(__file__).parents[1] / "diagnosis" / "cases"
REAL = [
    nova.examples.path("claude-code-short"),
    *(
        next((CASES / name).glob("*.jsonl"))
        for name in ("healthy-compaction", "parallel-results-out-of-order", "rewind-by-the-user")
    ),
]
LINES = [path.read_bytes().splitlines(keepends=True) for path in REAL]

Mutation = Callable[[list[bytes], random.Random], list[bytes]]


def cut(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    return [*lines[:i], lines[i][: dice.randrange(len(lines[i]))], *lines[i + 1 :]]


def cut_the_end(lines: list[bytes], dice: random.Random) -> list[bytes]:
    return cut(lines, dice)[: dice.randrange(1, len(lines) + 1)]


def swap(lines: list[bytes], dice: random.Random) -> list[bytes]:
    out = list(lines)
    i, j = dice.randrange(len(out)), dice.randrange(len(out))
    out[i], out[j] = out[j], out[i]
    return out


def duplicate(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    return [*lines, *lines[i : i + dice.randrange(1, 8)]]


def circle(lines: list[bytes], dice: random.Random) -> list[bytes]:
    """A row's parent becomes any row: itself, a later one, one of another branch."""
    ids = [value for line in lines if isinstance(value := json.loads(line).get("uuid"), str)]
    i = dice.randrange(len(lines))
    row = json.loads(lines[i])
    row["parentUuid"] = row["logicalParentUuid"] = dice.choice(ids or ["nowhere"])
    return [*lines[:i], json.dumps(row).encode() + b"\n", *lines[i + 1 :]]


def splice(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    if i + 1 == len(lines):
        return lines
    at = dice.randrange(len(lines[i]))
    return [*lines[:i], lines[i][:at] + lines[i + 1].rstrip(b"\n") + lines[i][at:], *lines[i + 2 :]]


def nul(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    at = dice.randrange(len(lines[i]))
    return [*lines[:i], lines[i][:at] + b"\0" * dice.randrange(1, 5000) + lines[i][at:], *lines[i + 1 :]]


def bytes_anywhere(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    at = dice.randrange(len(lines[i]))
    return [*lines[:i], lines[i][:at] + dice.randbytes(dice.randrange(1, 9)) + lines[i][at + 1 :], *lines[i + 1 :]]


def huge(lines: list[bytes], dice: random.Random) -> list[bytes]:
    row = json.loads(lines[0]) | {"huge": "x" * 300_000, "number": 10**40}
    return [*lines, json.dumps(row).encode() + b"\n"]


def deep(lines: list[bytes], dice: random.Random) -> list[bytes]:
    depth = dice.choice([50, 900, 990, 2000])
    inner = b"[" * depth + b"1" + b"]" * depth
    return [
        *lines,
        b'{"type":"user","uuid":"deep","message":{"role":"user","content":[{"type":"text","text":"t","x":' + inner + b"}]}}\n",
    ]


def odd_types(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    row = json.loads(lines[i])
    for key in list(row):
        if dice.random() < 0.4:
            row[key] = dice.choice([None, 7, [], {}, "x", ["y"], {"content": 3}, True])
    return [*lines[:i], json.dumps(row).encode() + b"\n", *lines[i + 1 :]]


def odd_content(lines: list[bytes], dice: random.Random) -> list[bytes]:
    i = dice.randrange(len(lines))
    row = json.loads(lines[i])
    message = row.get("message") if isinstance(row.get("message"), dict) else {}
    odd = [
        None,
        3,
        "",
        [None],
        [[]],
        [{"type": "tool_result"}],
        [{"type": "tool_use", "id": []}],
        [{"type": "text", "text": 5}],
        [{}],
    ]
    row["message"] = {**message, "content": dice.choice(odd)}
    return [*lines[:i], json.dumps(row).encode() + b"\n", *lines[i + 1 :]]


MUTATIONS: list[Mutation] = [
    cut,
    cut_the_end,
    swap,
    duplicate,
    circle,
    splice,
    nul,
    bytes_anywhere,
    huge,
    deep,
    odd_types,
    odd_content,
]


def whole_ids(lines: list[bytes]) -> set[str]:
    """Ids of the rows whose line is exactly one row, by a reader that shares nothing with ours."""
    found = set()
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("uuid"), str):
            found.add(row["uuid"])
    return found


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    which=st.sampled_from(range(len(LINES))),
    steps=st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_a_mutated_session_opens_and_keeps_its_readable_rest(
    tmp_path: Path, which: int, steps: list[Mutation], seed: int
) -> None:
    dice = random.Random(seed)
    lines = LINES[which]
    for mutate in steps:
        if mutate in (circle, odd_types, odd_content, huge) and len(steps) > 1:
            lines = [line for line in lines if _is_row(line)] or LINES[which]
        lines = [line for line in mutate(lines, dice) if line]
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines))
    try:
        session = nova.open_session(path)
    except NotASession:
        assert not claude_code.sniff(path, path.read_bytes()[:65_536])
        return
    read = {event.id.partition("#L")[0] for event in session.log.events}
    joined = b"".join(lines).split(b"\n")
    assert whole_ids(joined) <= read
    sets = four_sets(session)
    assert set(sets.in_request) | set(sets.left_out) == set(sets.on_disk)
    for step in (None, *(entry.number for entry in session.steps)):
        assert session.request(step=step).canonical
    assert len(session.log.index) == len(session.log.events)


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def test_a_long_chain_of_parallel_calls_takes_linear_time(tmp_path: Path) -> None:
    """Ten thousand calls in one answer: quadratic pairing would take minutes."""
    rows = Rows()
    rows.user("u1", "go")
    for n in range(10_000):
        rows.answer(f"a{n}", "g1", call(f"c{n}"))
    for n in range(10_000):
        rows.result(f"r{n}", f"c{n}", "x", f"a{n}")
    session = nova.open_session(rows.write(tmp_path / "many.jsonl"))
    assert len(session.request().messages[2]["content"]) == 10_000


@pytest.mark.parametrize("depth", [100, 400, 900, 5_000])
def test_deep_nesting_is_read_or_named_and_never_breaks_a_request(tmp_path: Path, depth: int) -> None:
    rows = Rows()
    rows.user("u1", "go")
    path = rows.write(tmp_path / "deep.jsonl")
    inner = "[" * depth + "1" + "]" * depth
    with path.open("a") as file:
        file.write(
            '{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"g","content":[{"type":"tool_use","id":"c","name":"n","input":'
            + inner
            + "}]}}\n"
        )
        file.write(
            '{"type":"user","uuid":"r1","parentUuid":"a1","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}}\n'
        )
    session = nova.open_session(path)
    assert session.request().canonical
    assert session.request(step=1 if session.steps else None).canonical
    assert [d.kind for d in session.log.damage] == (["too-deep"] if depth == 5_000 else [])
