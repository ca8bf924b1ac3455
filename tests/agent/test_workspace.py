"""No path leads out of the workspace, whatever stands in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nova_nb.agent.workspace import ToolFailure, Workspace


@pytest.mark.parametrize("path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "..", "src/../../shop2/x", "a\0b"])
@pytest.mark.parametrize("write", [False, True])
def test_a_path_outside_is_refused(workspace: Workspace, path: str, write: bool):
    with pytest.raises(ToolFailure):
        workspace.find(path, write=write)


def test_a_sibling_whose_name_begins_like_the_root_is_outside(workspace: Workspace):
    other = workspace.root.parent / "shop-private"
    other.mkdir()
    with pytest.raises(ToolFailure):
        workspace.find(str(other / "x"))


@pytest.mark.parametrize("write", [False, True])
def test_a_link_a_linked_parent_and_a_dangling_link_do_not_lead_out(workspace: Workspace, write: bool):
    root = workspace.root
    os.symlink(root.parent / "secret.txt", root / "link.txt")
    os.symlink(root.parent, root / "up")
    os.symlink(root.parent / "not-yet.txt", root / "dangling.txt")
    for path in ("link.txt", "up/secret.txt", "up/new.txt", "dangling.txt", "src/../up/secret.txt"):
        with pytest.raises(ToolFailure):
            workspace.find(path, write=write)


def test_a_link_that_stays_inside_is_followed(workspace: Workspace):
    os.symlink("src", workspace.root / "code")
    assert workspace.find("code/orders.py") == workspace.root / "src" / "orders.py"


def test_a_link_loop_is_refused_and_not_followed_for_ever(workspace: Workspace):
    os.symlink("b", workspace.root / "a")
    os.symlink("a", workspace.root / "b")
    with pytest.raises(ToolFailure):
        workspace.file("a")


def test_r3_5_stored_results_can_be_read_by_either_path_and_nothing_else_of_the_session(workspace: Workspace):
    session = workspace.sessions[0]
    stored = session / "tool-results" / "t1.txt"
    stored.write_text("stored")
    (session / "log.jsonl").write_text("{}")
    assert workspace.file("tool-results/t1.txt") == workspace.file(str(stored)) == stored
    assert workspace.stored(str(stored))
    assert not workspace.stored("README.md")
    for path in ("log.jsonl", str(session / "log.jsonl"), "tool-results/../log.jsonl"):
        with pytest.raises(ToolFailure):
            workspace.file(path)
    with pytest.raises(ToolFailure):
        workspace.find(str(stored), write=True)


def test_a_link_among_the_stored_results_does_not_lead_out(workspace: Workspace):
    os.symlink(workspace.root.parent / "secret.txt", workspace.sessions[0] / "tool-results" / "t2.txt")
    with pytest.raises(ToolFailure):
        workspace.file("tool-results/t2.txt")


def test_the_log_is_not_writable_even_when_it_lies_inside_the_workspace(tmp_path: Path):
    session = tmp_path / ".nova" / "s1"
    session.mkdir(parents=True)
    inside = Workspace(tmp_path, [session])
    for path in (".nova/s1/log.jsonl", ".git/hooks/pre-commit"):
        with pytest.raises(ToolFailure):
            inside.find(path, write=True)


def test_a_pipe_is_refused_instead_of_waited_for(workspace: Workspace):
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(ToolFailure, match="no regular file"):
        workspace.file("pipe")


def test_a_forks_workspace_reads_what_its_parent_stored(workspace: Workspace, tmp_path: Path):
    parent = workspace.sessions[0]
    (parent / "tool-results" / "t1.txt").write_text("stored before the fork")
    child = tmp_path / "home" / "s2"
    (child / "tool-results").mkdir(parents=True)
    fork = Workspace(workspace.root, [child, parent])
    assert fork.file("tool-results/t1.txt").read_text() == "stored before the fork"
    (child / "tool-results" / "t1.txt").write_text("stored after it")
    assert fork.file("tool-results/t1.txt").read_text() == "stored after it"
