"""The package as a stranger gets it: a wheel, installed in a fresh environment far from the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def done(*argv: object, cwd: Path) -> str:
    """Standard output of a command that must succeed; nothing of this process's Python leads it to the checkout."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NOVA_", "JUPYTER"))}
    found = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source archive, by their endings."""
    out = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "venv", out / "tools", cwd=out)
    python = out / "tools" / "bin" / "python"
    done(python, "-m", "pip", "install", "-q", "build", cwd=out)
    done(python, "-m", "build", "--outdir", out, ROOT, cwd=out)
    return {path.suffix: path for path in out.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment that holds the wheel and what it asks for, nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    done(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    bin = folder / "venv" / "bin"
    done(bin / "python", "-m", "pip", "install", "-q", built[".whl"], cwd=folder)
    return bin


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def files_of(folder: str) -> set[str]:
    listed = done("git", "ls-files", "-z", folder, cwd=ROOT).split("\0")
    return {name for name in listed if name and (ROOT / name).exists()}


def test_the_wheel_holds_every_file_of_the_package_and_the_notebooks_and_nothing_else(built: dict[str, Path]):
    names = set(zipfile.ZipFile(built[".whl"]).namelist())
    shared = {re.sub(r"^.*\.data/data/share/nova_nb/", "", n) for n in names if ".data/data/share/nova_nb/" in n}
    assert shared == files_of("notebooks")
    assert {name for name in names if name.startswith("nova_nb/")} == files_of("nova_nb")
    assert {Path(n).name for n in names if ".dist-info/" in n} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}


def test_the_source_archive_holds_what_the_tests_need(built: dict[str, Path]):
    with tarfile.open(built[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = set().union(*(files_of(folder) for folder in ("nova_nb", "notebooks", "tests", "docs", "binder", "README.md")))
    assert wanted - names == set()
    assert [n for n in names if n.startswith(("dist/", ".venv/"))] == []


def test_the_command_line_and_the_examples_work_away_from_the_checkout(installed: Path, tmp_path: Path):
    assert re.fullmatch(r"nova-nb \d+\.\d+\.\d+\n", done(installed / "nova-nb", "--version", cwd=tmp_path))
    script = "import nova_nb as nova; nova.examples.workspace('shop', 'x'); print(nova.examples.path('claude-code-short'))"
    session = Path(done(installed / "python", "-c", script, cwd=tmp_path).strip())
    assert (tmp_path / "x" / "shop" / "orders.py").is_file()
    assert not session.is_relative_to(ROOT)
    assert json.loads(done(installed / "nova-nb", "doctor", session, "--json", cwd=tmp_path))["verdict"] == "clear"
    done(installed / "nova-nb", "open", session, "--html", "page.html", cwd=tmp_path)
    assert "</script>" in (tmp_path / "page.html").read_text()


def test_an_agent_runs_and_its_session_verifies(installed: Path, tmp_path: Path):
    script = """if True:
        import nova_nb as nova
        shop = nova.examples.workspace("shop", "shop")
        with nova.AgentKernel(shop, settings="workshop", permission="allow", home="home") as kernel:
            kernel.ask_sync("All timestamps are stored in UTC. Why does test_orders fail? Please fix it.")
            kernel.explore(), kernel.timeline()
            print(kernel.session.verify().ok)"""
    assert done(installed / "python", "-c", script, cwd=tmp_path) == "True\n"


@pytest.fixture
def lab(installed: Path, tmp_path: Path) -> Iterator[str]:
    """The address that `nova-nb lab --no-browser` prints, token included, once someone answers there."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NOVA_", "JUPYTER"))}
    env |= {"HOME": str(tmp_path), "NO_COLOR": "1"}
    log = tmp_path / "server.txt"
    with log.open("w") as output:
        server = subprocess.Popen([installed / "nova-nb", "lab", "--no-browser"], cwd=tmp_path, env=env, stderr=output)
    try:
        until = time.monotonic() + 120
        while (found := re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/\S*token=\w+", log.read_text())) is None:
            assert server.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        while not answers(found[0]):  # it is printed a moment before the server listens
            assert server.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield found[0]
    finally:
        server.terminate()
        server.wait(30)


def test_lab_serves_a_copy_of_the_first_notebook(lab: str, tmp_path: Path):
    address, _, token = lab.partition("?")
    assert address.endswith("/lab/tree/00_quickstart.ipynb")
    root = address.removesuffix("/lab/tree/00_quickstart.ipynb")
    assert answers(f"{root}/files/00_quickstart.ipynb?{token}")
    with urllib.request.urlopen(f"{root}/files/00_quickstart.ipynb", timeout=30) as answer:
        assert "/login?" in answer.url  # without the token there is nothing to see
    assert (tmp_path / "nova-notebooks" / "00_quickstart.ipynb").is_file()
