"""The command line: what it prints, its exit status, and one sentence for everything that goes wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb import cli, examples, lab
from nova_nb.ids import Fixed


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of the offline model in the shop."""
    root = tmp_path_factory.mktemp("live")
    shop = examples.workspace("shop", root / "shop")
    with nova.AgentKernel(shop, permission="allow", home=root / "home", ids=Fixed()) as kernel:
        kernel.ask_sync(examples.scenario("shop")["prompts"]["why"])
    return kernel.live.directory


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minimal session in Claude Code's format, its second parent missing."""
    rows = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Use UTC.\x1b[2J"}},
        {
            "type": "assistant", "uuid": "a1", "parentUuid": "u1", "requestId": "r1",
            "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "Yes."}],
                        "usage": {"input_tokens": 10, "output_tokens": 2}},
        },
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("claude") / "5b1c2f6e-0000-4000-8000-000000000001.jsonl"
    common = {
        "sessionId": path.stem,
        "version": "2.1.0",
        "cwd": "/tmp",
        "isSidechain": False,
        "timestamp": "2026-01-01T00:00:00Z",
    }
    path.write_text("".join(json.dumps(common | row) + "\n" for row in rows))
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    status = cli.main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_requests_lists_the_steps_with_their_usage(live: Path, capsys):
    status, out, _ = run(capsys, "requests", live)
    lines = out.splitlines()
    assert status == 0
    assert len(lines) > 5
    assert lines[0].split()[:3] == ["1", "main", "rebuilt"]
    status, out, _ = run(capsys, "requests", live, "--json")
    assert [step["number"] for step in json.loads(out)] == list(range(1, len(lines) + 1))


def test_requests_shows_one_step_in_the_providers_words(live: Path, capsys):
    status, out, _ = run(capsys, "requests", live, "--step", 2, "--json")
    body = json.loads(out)
    assert status == 0
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert "UTC" in body["messages"][0]["content"][0]["text"]
    status, out, _ = run(capsys, "requests", live, "--step", 2)
    assert "tool_result" in out


def test_requests_compares_two_steps(live: Path, capsys):
    status, out, _ = run(capsys, "requests", live, "--step", 1, "--diff", 2)
    assert status == 0
    assert "the second adds" in out
    status, out, _ = run(capsys, "requests", live, "--step", 1, "--diff", 2, "--json")
    diff = json.loads(out)
    assert diff["same_bytes"] == diff["bytes_a"] < diff["bytes_b"]


@pytest.mark.parametrize(
    ("words", "sentence"), [(("--step", 99), "there is no step 99"), (("--diff", 1), "give --step N as well")]
)
def test_a_step_that_is_not_there_is_named_with_those_that_are(live: Path, capsys, words, sentence: str):
    status, out, err = run(capsys, "requests", live, *words)
    assert (status, out) == (2, "")
    assert sentence in err


def test_doctor_gives_the_four_counts_the_leaf_and_an_exit_status(live: Path, capsys):
    status, out, _ = run(capsys, "doctor", live, "--json", "--trace", "UTC")
    report = json.loads(out)
    assert report["verdict"] == "clear"
    assert status == 0
    assert set(report["counts"]) == {"on_disk", "reachable", "in_request", "shown"}
    assert report["counts"]["on_disk"] == report["counts"]["reachable"] > 5
    assert report["leaf"]["line"]
    assert report["trace"]["steps"][0]["state"] == "whole"
    status, out, _ = run(capsys, "doctor", live, "--trace", "UTC")
    assert "reachable" in out
    assert "'UTC'" in out


def test_doctor_answers_scripts_by_its_exit_status(claude: Path, tmp_path: Path, capsys):
    assert run(capsys, "doctor", claude)[0] == 0
    broken = tmp_path / claude.name
    rows = [json.loads(line) for line in claude.read_text().splitlines()]
    rows[1]["parentUuid"] = "never-written"
    broken.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, out, _ = run(capsys, "doctor", broken, "--json")
    assert (json.loads(out)["verdict"], status) == ("fault", 1)


def test_verify_derives_every_request_again_and_a_changed_log_is_no_success(live: Path, tmp_path: Path, capsys):
    status, out, _ = run(capsys, "verify", live)
    assert status == 0
    assert "byte for byte" in out
    changed = tmp_path / "log.jsonl"
    changed.write_text((live / "log.jsonl").read_text().replace("All timestamps are stored in UTC", "All timestamps are local"))
    status, out, _ = run(capsys, "verify", changed)
    assert status == 1
    assert "different" in out


def test_verify_of_a_session_that_records_no_requests_says_so(claude: Path, capsys):
    status, out, _ = run(capsys, "verify", claude)
    assert (status, out) == (3, "no request is recorded in this session\n")
    status, _, err = run(capsys, "verify", examples.path("gemini-cli"))
    assert status == 2
    assert "records no hash of its requests" in err


def test_what_a_terminal_would_obey_is_not_printed(claude: Path, capsys):
    _, out, _ = run(capsys, "requests", claude, "--step", 1)
    assert "Use UTC." in out
    assert "\x1b" not in out


def test_json_holds_the_very_characters_and_prints_none_of_them(claude: Path, tmp_path: Path, capsys):
    odd = "Use UTC.\u202e\u2028\x1b[2J é"
    path = tmp_path / claude.name
    path.write_text(claude.read_text().replace(json.dumps("Use UTC.\x1b[2J"), json.dumps(odd)))
    _, out, _ = run(capsys, "requests", path, "--step", 1, "--json")
    assert out.isascii()
    assert json.loads(out)["messages"][0]["content"] in (odd, [{"type": "text", "text": odd}])


def test_list_shows_the_sessions_of_a_folder(claude: Path, capsys):
    status, out, _ = run(capsys, "list", claude.parent)
    assert status == 0
    assert claude.stem in out
    assert "claude-code" in out


def test_list_shows_the_sessions_of_every_agent_below_a_folder_and_where_they_lie(claude: Path, live: Path, tmp_path, capsys):
    (tmp_path / "a" / "b").mkdir(parents=True)
    shutil.copy(claude, tmp_path / "a")
    shutil.copy(Path(nova.__file__).parent / "data" / "sessions" / "codex-compaction.jsonl", tmp_path / "a" / "b")
    shutil.copytree(live, tmp_path / "home" / "sessions" / live.name)
    kernel = nova.AgentKernel.fork(live, home=tmp_path / "home")
    kernel.close()
    status, out, _ = run(capsys, "list", tmp_path)
    lines = out.splitlines()
    assert status == 0 and len(lines) == 4
    assert sum(word in line for line in lines for word in ("claude-code", "codex", "nova ")) == 4
    assert any("a/b/codex-compaction.jsonl" in line for line in lines)
    assert any(f"fork of {live.name}" in line for line in lines)


def bad_files(root: Path) -> dict[str, Path]:
    (root / "empty.jsonl").write_bytes(b"")
    (root / "binary.jsonl").write_bytes(bytes(range(256)) * 40)
    (root / "prose.txt").write_text("Dear diary,\n")
    (root / "torn.jsonl").write_text('{"type":"session_sta')
    (root / "folder").mkdir()
    (root / "json.json").write_text("[1, 2, 3]")
    return {"missing": root / "nowhere.jsonl", **{path.stem: path for path in sorted(root.iterdir())}}


@pytest.mark.parametrize("command", ["doctor", "requests", "open", "list", "verify"])
@pytest.mark.parametrize("kind", ["missing", "empty", "binary", "prose", "torn", "folder", "json"])
def test_what_is_no_session_is_one_sentence_and_status_2(tmp_path: Path, capsys, command: str, kind: str):
    path = bad_files(tmp_path)[kind]
    status, out, err = run(capsys, command, path)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert path.name in err


def test_a_fault_of_novas_own_is_said_as_such_without_a_traceback(live: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nova_nb.session.open_session", lambda *_: 1 / 0)
    status, _, err = run(capsys, "requests", live)
    assert status == 2
    assert "a fault of Nova" in err
    assert len(err.splitlines()) == 1


def test_a_reader_that_has_seen_enough_is_no_error(live: Path):
    command = f"{sys.executable} -m nova_nb.cli requests {live} --step 9 --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=Path(nova.__file__).parents[1])
    assert (done.returncode, done.stderr) == (0, "")


def test_help_and_version_load_no_room():
    code = "import sys; from nova_nb import cli\ntry: cli.main(['--version'])\nexcept SystemExit: pass\n" + (
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in {'nova_nb', 'pydantic', 'msgspec', 'anthropic', 'IPython'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(nova.__file__).parents[1]
    )
    version, loaded = done.stdout.splitlines()
    assert version == f"nova-nb {nova.__version__}"
    assert loaded.split() == ["nova_nb", "nova_nb.cli", "nova_nb.errors"]


def test_lab_starts_on_the_notebook_and_asks_the_network_for_nothing(tmp_path: Path):
    command = lab.command(tmp_path / "01 my lesson.ipynb", port=8899, browser=False)
    assert command[:2] == ["-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert "--LabApp.default_url=/lab/tree/01%20my%20lesson.ipynb" in command
    assert {"--port=8899", "--no-browser", "--LabApp.news_url=None"} <= set(command)
    assert "--no-browser" not in lab.command(tmp_path / "x.ipynb")


def test_installed_notebooks_are_copied_once_and_work_in_the_copy_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = tmp_path / "share" / "nova_nb" / "notebooks"
    source.mkdir(parents=True)
    (source / lab.FIRST).write_text("first")
    (source / "01_next.ipynb").write_text("next")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "site" / "nova_nb" / "lab.py"))
    monkeypatch.setattr(lab.sysconfig, "get_path", lambda _name: str(tmp_path))
    assert lab.folder() == tmp_path / "here" / lab.WORKING
    (lab.folder() / lab.FIRST).write_text("mine")
    (lab.folder() / "01_next.ipynb").unlink()
    assert sorted(p.read_text() for p in lab.folder().iterdir()) == ["mine", "next"]


def test_a_notebook_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / lab.FIRST).write_text("{}")
    monkeypatch.setattr(lab, "folder", lambda: tmp_path)
    monkeypatch.setattr(lab.os, "execv", lambda *_: pytest.fail("it was started"))
    status, _, err = run(capsys, "lab", "99_nothing.ipynb")
    assert status == 2
    assert lab.FIRST in err
