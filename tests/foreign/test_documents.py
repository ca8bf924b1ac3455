from __future__ import annotations

import json

import pytest

from nova_nb.foreign.documents import load, peek, peek_rows, row_lines


@pytest.mark.parametrize(
    ("data", "kinds", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', [], {"a": 1}),
        (b'{"a": 1}\r\n\r\n', [], {"a": 1}),
        (b'{"a": 1}{"b": 2}', ["spliced"], {"a": 1}),
        (b'{"a": "\xff"}', ["not-utf8"], {"a": "\ufffd"}),
        (b'{"a": NaN}', [], {"a": None}),
        (b'{"a": "x\x01"}', [], {"a": "x\x01"}),
        (b'{"a": "\\ud800b"}', [], {"a": "\ufffdb"}),
        (b'{"a": [1, 2', ["torn"], {"a": [1, 2]}),
        (b'{"a": 1, \0\0\0 "b": 2}', ["nul"], {"a": 1}),
        (b'{"a": 1, b: 2}', ["not-json"], {"a": 1}),
        (b"[" * 100_000, ["too-deep"], None),
        (b"", ["torn"], None),
    ],
)  # fmt: skip
def test_a_document_is_read_as_far_as_it_goes_and_its_damage_has_a_name(data: bytes, kinds: list[str], value: object) -> None:
    got, damage = load(data)
    assert got == value
    assert [d.kind for d in damage] == kinds


def test_the_line_of_a_break_is_the_physical_one() -> None:
    _, damage = load(b'{\n"a": 1,\n!\n}')
    assert damage[0].line == 3


def test_lines_of_rows_survive_brackets_and_quotes_inside_strings() -> None:
    rows = [{"a": '[{"'}, {"b": ["]"]}, "x", 3, [4]]
    text = json.dumps({"other": [[1]], "steps": rows, "more": {"steps": [1, 2]}}, indent=1)
    lines = row_lines(text.encode(), "steps")
    assert len(lines) == 5
    assert [text.split("\n")[n - 1].strip()[:3] for n in lines] == ["{", "{", '"x"', "3,", "["]


def test_a_head_that_is_cut_shows_what_it_begins() -> None:
    assert peek(b'{"steps": [{"step_id": 1, "mess') == {"steps": [{"step_id": 1}]}
    assert peek(b"SQLite format 3\0") is None
    assert peek('{"a": "é"}'.encode()[:-3]) == {}
    assert peek_rows(b'{"event": 1}\n{"body": {"messages": [{"role": "user", "conte')[1] == {
        "body": {"messages": [{"role": "user"}]}
    }
