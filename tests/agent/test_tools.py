"""What each tool says, and that whatever a model puts in comes back as a result."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_nb.agent import process
from nova_nb.agent.tools import EIGHT, Result
from nova_nb.agent.workspace import Workspace


async def use(workspace: Workspace, name: str, **input) -> Result:
    return await EIGHT[name].run(input, workspace)


async def test_a_short_file_is_read_as_it_is(workspace: Workspace):
    assert await use(workspace, "read_file", path="README.md") == Result("A shop.\n")


async def test_a_range_names_its_lines_and_where_to_read_on(workspace: Workspace):
    (workspace.root / "long.txt").write_text("".join(f"line {i}\n" for i in range(1, 11)))
    part = await use(workspace, "read_file", path="long.txt", offset=3, limit=2)
    assert part.text == "line 3\nline 4\n[lines 3-4 of 10; read on with offset=5]"
    last = await use(workspace, "read_file", path="long.txt", offset=9)
    assert last.text == "line 9\nline 10\n[lines 9-10 of 10]"
    beyond = await use(workspace, "read_file", path="long.txt", offset=11)
    assert beyond.is_error
    assert "has 10 lines" in beyond.text


async def test_following_the_hints_reads_every_character_once(tmp_path: Path):
    text = "a" * 2_500 + "\nshort\n" + "b" * 999 + "\n" + "\n".join("c" * 40 for _ in range(60))
    (tmp_path / "wide.txt").write_text(text)
    small = Workspace(tmp_path, read_chars=1_000)
    seen, input = "", {"path": "wide.txt"}
    for _ in range(20):
        result = await EIGHT["read_file"].run(input, small)
        assert len(result.text) < 1_100
        body, _, hint = result.text.rpartition("\n[")
        words = [word.rstrip("];") for word in hint.split() if "=" in word]
        column = any(word.startswith("column") for word in words)
        seen += body + ("" if column else "\n")
        if not words:
            break
        input = {"path": "wide.txt", **{k: int(v) for k, v in (word.split("=") for word in words)}}
    assert seen == text + "\n"


async def test_a_stored_result_is_read_by_ranges(workspace: Workspace):
    (workspace.sessions[0] / "tool-results" / "t1.txt").write_text("".join(f"row {i}\n" for i in range(1, 5_001)))
    part = await use(workspace, "read_file", path="tool-results/t1.txt", offset=4_999)
    assert part.text == "row 4999\nrow 5000\n[lines 4999-5000 of 5000]"


async def test_binary_and_missing_files_and_folders_are_named(workspace: Workspace):
    (workspace.root / "logo.png").write_bytes(b"\x89PNG\0\0")
    for path, word in (("logo.png", "binary"), ("gone.py", "no such file"), ("src", "is a folder")):
        result = await use(workspace, "read_file", path=path)
        assert result.is_error
        assert word in result.text


async def test_writing_makes_folders_and_says_what_it_did(workspace: Workspace):
    made = await use(workspace, "write_file", path="new/deep/a.txt", content="one\ntwo\n")
    assert made.text == "created new/deep/a.txt (2 lines)"
    again = await use(workspace, "write_file", path="new/deep/a.txt", content="x\r\n")
    assert again.text == "replaced new/deep/a.txt (1 line)"
    assert (workspace.root / "new/deep/a.txt").read_bytes() == b"x\r\n"


async def test_a_patch_needs_one_place_and_keeps_the_rest_byte_for_byte(workspace: Workspace):
    (workspace.root / "crlf.txt").write_bytes(b"a = 1\r\nb = 1\r\n")
    done = await use(workspace, "patch_file", path="crlf.txt", old="b = 1", new="b = 2")
    assert done.text == "patched crlf.txt at line 2"
    assert (workspace.root / "crlf.txt").read_bytes() == b"a = 1\r\nb = 2\r\n"
    twice = await use(workspace, "patch_file", path="crlf.txt", old=" = ", new="")
    none = await use(workspace, "patch_file", path="crlf.txt", old="c", new="")
    assert twice.is_error
    assert "2 times" in twice.text
    assert "not in the file" in none.text


async def test_a_patch_through_a_link_cannot_reach_gits_own_files(workspace: Workspace):
    (workspace.root / ".git").mkdir()
    (workspace.root / ".git" / "config").write_text("x = 1")
    os.symlink(".git/config", workspace.root / "cfg")
    assert (await use(workspace, "patch_file", path="cfg", old="x = 1", new="y")).is_error
    assert (workspace.root / ".git" / "config").read_text() == "x = 1"


async def test_listing_skips_what_nobody_wrote_and_does_not_follow_links(workspace: Workspace):
    (workspace.root / "__pycache__").mkdir()
    (workspace.root / "__pycache__" / "x.pyc").write_text("")
    os.symlink(workspace.root.parent, workspace.root / "up")
    assert (await use(workspace, "list_files")).text == "README.md\nsrc/orders.py"
    assert (await use(workspace, "list_files", glob="*.py")).text == "src/orders.py"
    assert (await use(workspace, "list_files", path="src", glob="*.md")).text == "no files"


async def test_a_search_says_first_how_much_it_found(workspace: Workspace):
    found = await use(workspace, "search", pattern=r"def \w+\(")
    assert found.text == "1 match in 1 file:\nsrc/orders.py:1: def total(rows):"
    assert (await use(workspace, "search", pattern="total(")).text.startswith("1 match")
    assert (await use(workspace, "search", pattern="nothing")).text == "no matches"
    one = await use(workspace, "search", pattern="sum", path="src/orders.py")
    assert one.text == "1 match in 1 file:\nsrc/orders.py:2: return sum(rows)"


async def test_a_search_does_not_look_through_links(workspace: Workspace):
    os.symlink(workspace.root.parent / "secret.txt", workspace.root / "link.txt")
    assert (await use(workspace, "search", pattern="outside")).text == "no matches"


async def test_a_pattern_that_never_ends_is_stopped(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nova_nb.agent.tools.SEARCH_SECONDS", 0.5)
    (workspace.root / "evil.txt").write_text("a" * 60 + "b")
    result = await use(workspace, "search", pattern="(a+)+$")
    assert result.is_error
    assert "simpler pattern" in result.text


async def test_a_command_gives_output_and_exit_code(workspace: Workspace):
    assert (await use(workspace, "run_command", command="cat README.md")).text == "A shop."
    assert (await use(workspace, "run_command", command="true")).text == "[no output, exit code 0]"
    failed = await use(workspace, "run_command", command="echo out; echo err >&2; exit 3")
    assert failed == Result("out\nerr\n[exit code 3]", is_error=True)


async def test_a_command_runs_this_python_and_reads_no_input(workspace: Workspace):
    result = await use(workspace, "run_command", command="python -c 'import sys; print(sys.prefix, repr(sys.stdin.read()))'")
    assert result.text == f"{sys.prefix} ''"


async def test_a_command_sees_no_keys(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    for name in ("ANTHROPIC_API_KEY", "github_token", "DB_PASSWORD", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "hush-hush")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:hush-hush@index.example/simple")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "kept")
    result = await use(workspace, "run_command", command="env")
    assert "hush-hush" not in result.text
    assert "GIT_AUTHOR_NAME=kept" in result.text


async def test_when_its_time_is_over_the_command_and_its_children_are_killed(workspace: Workspace):
    result = await use(workspace, "run_command", command="sleep 300 & echo $! > pid; echo begun; sleep 300", timeout=1)
    assert result == Result("begun\n[killed after 1 s]", is_error=True)
    assert await gone(int((workspace.root / "pid").read_text()))


async def test_an_interrupt_kills_the_command_and_its_children(workspace: Workspace):
    task = asyncio.create_task(use(workspace, "run_command", command="sleep 300 & echo $! > pid; sleep 300"))
    while not (workspace.root / "pid").exists() or not (workspace.root / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int((workspace.root / "pid").read_text()))


async def test_what_a_finished_command_left_behind_is_ended(workspace: Workspace):
    result = await use(workspace, "run_command", command="sleep 300 & echo $!")
    assert await gone(int(result.text))


async def gone(pid: int) -> bool:
    """Whether the process ended (a zombie counts: nobody in this container may reap it)."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_endless_output_is_cut_and_said(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "MAX_OUTPUT", 1_000)
    result = await use(workspace, "run_command", command="yes | head -c 100000")
    assert result.text.endswith("[output cut at 1,000 bytes]")
    assert len(result.text) < 1_100


async def test_git_shows_changes_and_runs_nothing_the_repository_names(workspace: Workspace):
    root = workspace.root
    outside = await use(workspace, "git_status")
    assert outside.is_error
    assert "not a git repository" in outside.text
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    (root / "README.md").write_text("A shop, open.\n")
    trap = root.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {root.parent}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external"):
        subprocess.run(["git", "config", key, str(trap)], cwd=root, check=True)
    assert (await use(workspace, "git_status")).text == "## main\n M README.md"
    assert "+A shop, open." in (await use(workspace, "git_diff")).text
    assert (await use(workspace, "git_diff", path="src")).text == "no changes"
    assert (await use(workspace, "git_diff", path="../x")).is_error
    assert not (root.parent / "sprung").exists()


@pytest.mark.parametrize("name", EIGHT)
async def test_input_of_the_wrong_shape_is_a_result_that_names_the_field(workspace: Workspace, name: str):
    result = await EIGHT[name].run({"no_such_field": 1}, workspace)
    assert result.is_error
    assert name in result.text


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
FIELDS = ["path", "offset", "limit", "column", "content", "old", "new", "glob", "pattern", "staged"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["read_file", "write_file", "patch_file", "list_files", "git_diff"]),
    input=st.dictionaries(st.sampled_from(FIELDS), json, max_size=4),
)
def test_no_input_at_all_raises_or_writes_outside(tmp_path: Path, name: str, input: dict):
    root = tmp_path / "ws"
    root.mkdir(exist_ok=True)
    result = asyncio.run(EIGHT[name].run(input, Workspace(root)))
    assert isinstance(result, Result)
    assert [p.name for p in tmp_path.iterdir()] == ["ws"]


def test_schemas_are_plain_objects_whose_required_fields_exist():
    assert list(EIGHT) == [
        "read_file", "write_file", "patch_file", "list_files", "search", "run_command", "git_status", "git_diff",
    ]  # fmt: skip
    for tool in EIGHT.values():
        schema = tool.schema["input_schema"]
        assert schema["type"] == "object"
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(field.get("description") for field in schema["properties"].values())
