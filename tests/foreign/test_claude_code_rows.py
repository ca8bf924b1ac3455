"""Every whole record is read, whatever stands beside it, and what is broken is named once."""

from __future__ import annotations

import io

import pytest

from nova_nb.foreign.rows import iter_rows, read_rows, repair
from nova_nb.history.log import Damage


def read(data: bytes) -> tuple[list[tuple[int, object]], list[Damage]]:
    damage: list[Damage] = []
    return [(row.line, row.value) for row in iter_rows(io.BytesIO(data), damage)], damage


def test_bom_crlf_blank_lines_and_separators_inside_strings_are_not_damage() -> None:
    data = '\ufeff{"a": "x\u2028y\u0085z"}\r\n\r\n  \n{"b": 1}'.encode()
    assert read(data) == ([(1, {"a": "x\u2028y\u0085z"}), (4, {"b": 1})], [])


@pytest.mark.parametrize(
    ("line", "values", "kind"),
    [
        (b'{"a":1}{"b":2}\n', [{"a": 1}, {"b": 2}], "spliced"),
        (b'{"type":"stub","url{"parentUuid":null,"x":{"y":2}}\n', [{"parentUuid": None, "x": {"y": 2}}], "spliced"),
        (b'{"type":"stub","url":{"parentUuid":null}\n', [{"parentUuid": None}], "spliced"),
        (b'{"a":"fo{"b":1,"c":[{"d":1}]}o"}\n', [{"a": "foo"}, {"b": 1, "c": [{"d": 1}]}], "spliced"),
        (b'\0\0{"a":1}\0\0\0{"b":2}\n', [{"a": 1}, {"b": 2}], "nul"),
        (b'{"a":"x\0\0y"}\n', [{"a": "xy"}], "nul"),
        (b"\0" * 400 + b"\n", [], "nul"),
        (b'{"a":"\\ud83d \\ud83d\\ude00 \\\\ud83d"}\n', [{"a": "\ufffd \U0001f600 \\ud83d"}], "surrogate"),
        (b'{"a":"\xff"}\n', [{"a": "\ufffd"}], "not-utf8"),
        (b'{"a":"\xed\xa0\xbd"}\n', [{"a": "\ufffd\ufffd\ufffd"}], "not-utf8"),
        (b'{"a":"tab\there"}\n', [{"a": "tab\there"}], "not-json"),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}\n", [], "too-deep"),
        (b"[1, 2]\n", [], "not-a-record"),
        (b"hello\n", [], "not-json"),
        (b'{"message":{"content":[{"type":"text"},{"ty', [], "torn"),
    ],
)  # fmt: skip
def test_one_broken_line(line: bytes, values: list[object], kind: str) -> None:
    found, damage = repair(line, 9)
    assert found == values
    assert damage is not None
    assert (damage.line, damage.kind, damage.recovered) == (9, kind, len(values))
    assert damage.message.startswith("line 9: ")


def test_the_rest_of_the_file_is_kept_around_a_broken_line() -> None:
    rows, damage = read(b'{"n":1}\n{"n":2,"x\n{"n":3}\n{"n":4')
    assert [value["n"] for _, value in rows] == [1, 3]  # type: ignore[index]
    assert [(d.line, d.kind) for d in damage] == [(2, "not-json"), (4, "torn")]


def test_nested_objects_of_a_cut_record_are_not_taken_for_records() -> None:
    line = b'{"type":"user","message":{"content":[{"type":"text","text":"a"},{"type":"text","te{"parentUuid":null,"n":1}\n'
    assert repair(line, 1)[0] == [{"parentUuid": None, "n": 1}]


def test_a_broken_line_of_many_braces_takes_linear_time() -> None:
    rows, damage = read(b'}{"a":' * 400_000 + b"\n" + b'{"n":1}\n')
    assert rows == [(2, {"n": 1})]
    assert [d.line for d in damage] == [1]


def test_a_long_line_is_read_and_torn_ones_are_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"a":"' + b"x" * 12_000_000 + b'"}\n{"a":"' + b"y" * 12_000_000)
    rows, damage = read_rows(path)
    assert [len(row.value["a"]) for row in rows] == [12_000_000]
    assert [(d.line, d.kind) for d in damage] == [(2, "torn")]
