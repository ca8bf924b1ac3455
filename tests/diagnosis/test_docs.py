"""The page "My agent forgot" shows true outputs, and its table names the findings that the checks make."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.cli import main
from nova_nb.diagnosis.checks import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "my-agent-forgot.md"
CASES = Path(__file__).parent / "cases"
BLOCKS = re.findall(r"```(console|pycon)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def opened(name: str) -> nova.Session:
    return nova.open_session(next((CASES / name).glob("*.jsonl")))


def commands(kind: str) -> list[tuple[str, str]]:
    """(command, output as the page has it) of each example of a kind."""
    prompt = "$ " if kind == "console" else ">>> "
    found: list[tuple[str, str]] = []
    for block in (text for k, text in BLOCKS if k == kind):
        for part in block.split(prompt)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def same(shown: str, true: str) -> bool:
    """Whether an output is as shown; "…" stands for any text."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, true.strip(), re.DOTALL) is not None


@pytest.mark.parametrize(("command", "shown"), commands("console"), ids=lambda text: text[:60])
def test_commands_print_what_the_page_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    out = str(tmp_path / "OUT")
    main([out if word == "OUT" else word for word in shlex.split(command)[1:]])
    true = capsys.readouterr().out.replace(out, "OUT")
    assert same(shown, true), true


@pytest.mark.parametrize(("code", "shown"), commands("pycon"), ids=lambda text: text[:60])
def test_examples_give_what_the_page_shows(code: str, shown: str) -> None:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        exec(code, {"nova": nova, "opened": opened})
    assert same(
        "\n".join(line.rstrip() for line in shown.splitlines()),
        "\n".join(line.rstrip() for line in heard.getvalue().splitlines()),
    )


def test_the_table_names_every_finding_and_no_other() -> None:
    table = set(re.findall(r"`([a-z][a-z0-9-]+)`", PAGE.read_text("utf-8").rpartition("## The checks")[2]))
    folder = Path(CHECKS[0].__code__.co_filename).parent
    source = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    layers = "log|branch|boundary|projection|artifact|pairing|provider|runtime|memory|budget|cache|display"
    made = set(re.findall(rf'"([a-z][a-z-]+)",\s+"(?:{layers})",\s+["\(cr]', source)) | set(
        re.findall(r'"([a-z][a-z-]+)", "(?:artifact|pairing)", "', source)
    )
    assert made <= table
    assert {code for code in table - made if not code.endswith("-line") and not code.startswith("stored-result-")} == set()
