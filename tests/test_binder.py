"""The hosted demo builds: the plan that repo2docker makes of binder/, and (slow) its steps in a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_build_plan_uses_a_python_that_the_package_supports():
    app = pytest.importorskip("repo2docker.app", reason="jupyter-repo2docker is not installed")
    from repo2docker.utils import chdir

    with chdir(str(ROOT)):
        builder = app.Repo2Docker()
        pack = next(p for p in (P(builder.base_image) for P in builder.buildpacks) if p.detect())
        assert pack.binder_dir == "binder"
        assert tuple(map(int, pack.python_version.split("."))) >= (3, 11)
        assert pack.get_post_build_scripts() == ["binder/postBuild"]
        assert pack.get_start_script().endswith("binder/start")


@pytest.mark.parametrize("script", ["postBuild", "start"])
def test_each_script_is_executable_and_parses(script: str):
    path = ROOT / "binder" / script
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.slow
def test_the_steps_give_a_jupyterlab_that_imports_nova(tmp_path: Path):
    env = {**os.environ, "PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}", "PIP_QUIET": "1"}
    env.pop("PYTHONPATH", None)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    subprocess.run(["pip", "install", "-r", ROOT / "binder/requirements.txt"], env=env, cwd=ROOT, check=True)
    subprocess.run([ROOT / "binder/postBuild"], env=env, cwd=ROOT, check=True)
    lab = subprocess.run(
        [ROOT / "binder/start", "jupyter", "lab", "--version"], env=env, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert int(lab.stdout.split(".")[0]) >= 4
    subprocess.run(["python", "-c", "import nova_nb; nova_nb.AgentKernel"], env=env, cwd=tmp_path, check=True)
