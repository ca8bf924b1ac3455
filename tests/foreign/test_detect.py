"""What is no session gets one sentence: what it is instead, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.errors import NotASession, NovaError
from nova_nb.foreign.detect import FORMATS, format_named, format_of
from tests.foreign.claude_rows import Rows


def refused(path: Path) -> str:
    with pytest.raises(NotASession) as caught:
        nova.open_session(path)
    text = str(caught.value)
    assert isinstance(caught.value, NovaError)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.jsonl") == "there is no such file; check the path"


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    assert refused(path).startswith("the file is empty; ")


def test_text_that_a_shell_saved_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "copied.jsonl"
    path.write_text('{"type":"user","parentUuid":null}', "utf-16")
    assert refused(path).startswith("this is text in UTF-16, as some shells write it; save it as UTF-8")


def test_binary_data(tmp_path: Path) -> None:
    path = tmp_path / "image.jsonl"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 20)
    assert refused(path).startswith("this is binary data and no session; ")


@pytest.mark.parametrize("data", [b"hello\n", b"{}\n", b"[]", b'{"a": 1}\n{"b": 2}\n', b"\n\n\n", b"\xff\xfe{\0"], ids=repr)
def test_what_is_no_session(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(data)
    assert "Nova reads claude-code, nova, " in refused(path)


def test_a_folder_without_a_session(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    (tmp_path / "prices.jsonl").write_text('{"price": 1}\n')
    assert refused(tmp_path).startswith("this is a folder without a session in it; ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    assert refused(path).startswith("this is neither a file nor a folder; ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = Rows().write(tmp_path / "secret.jsonl")
    path.chmod(0)
    assert "check its permissions" in refused(path)


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    path = rows.write(tmp_path / "rollout-2026-05-04T09-00-00-abc.txt")
    assert format_of(path).name == "claude-code"


def test_a_line_longer_than_what_is_looked_at_is_still_recognised(tmp_path: Path) -> None:
    rows = Rows()
    rows.user("u1", "x" * 12_000_000)
    session = nova.open_session(rows.write(tmp_path / "long.jsonl"))
    assert session.request().messages[0]["content"][0]["text"] == "x" * 12_000_000


def test_a_file_cut_in_its_only_line_opens_with_the_damage_named(tmp_path: Path) -> None:
    rows = Rows()
    rows.user("u1", "go")
    path = rows.write(tmp_path / "cut.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    session = nova.open_session(path)
    assert session.log.events == []
    assert [(d.line, d.kind) for d in session.log.damage] == [(1, "torn")]
    assert session.request().messages == []
    assert session.leaf.record is None


def test_every_named_format_is_there() -> None:
    names = [format_named(module).name for module in FORMATS]
    assert len(set(names)) == len(names)
    assert {"nova", "claude-code"} <= set(names)
