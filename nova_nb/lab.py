"""Start JupyterLab on the notebooks, wherever they are: in a checkout, or installed with the package.

Knows: where notebooks lie and JupyterLab's switches. Does not know what is in a notebook. The
server listens on this machine alone, with Jupyter's own token.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from urllib.parse import quote

from .errors import MissingExtra, UsageError

FIRST = "00_quickstart.ipynb"
WORKING = "nova-notebooks"
"""folder in the current directory that gets a copy of installed notebooks"""


def start(notebook: str | None = None, port: int | None = None, browser: bool = True) -> int:
    """Replace this process by JupyterLab, open on a notebook. Raises UsageError when the notebook is not there."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingExtra(f"JupyterLab is not installed; run {sys.executable} -m pip install jupyterlab")
    root = folder()
    path = (root / (notebook or FIRST)).resolve()
    if not path.is_file() and notebook:
        path = Path(notebook).resolve()
    if not path.is_file():
        have = ", ".join(sorted(p.name for p in root.glob("*.ipynb"))) or "none"
        raise UsageError(f"{notebook or FIRST}: there is no such notebook in {root}; there are: {have}")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *command(path, port, browser)])


def command(path: Path, port: int | None = None, browser: bool = True) -> list[str]:
    """Arguments for Python. News and update checks are off: nothing needs the network."""
    return [
        *("-m", "jupyterlab"),
        f"--ServerApp.root_dir={path.parent}",
        f"--LabApp.default_url=/lab/tree/{quote(path.name)}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        *([f"--port={port}", "--ServerApp.port_retries=0"] if port else []),
        *([] if browser else ["--no-browser"]),
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]


def folder() -> Path:
    """Where the notebooks are to be worked on: a checkout's own folder, else a copy in the current directory.

    A copy that is there already is kept as it is; only notebooks that are missing in it are added.
    """
    checkout = Path(__file__).parents[1] / "notebooks"
    if (checkout / FIRST).is_file() and os.access(checkout, os.W_OK):
        return checkout
    installed = Path(sysconfig.get_path("data")) / "share" / "nova_nb" / "notebooks"
    source = next((place for place in (checkout, installed) if (place / FIRST).is_file()), None)
    if source is None:
        raise UsageError(f"the notebooks are missing: neither {checkout} nor {installed} holds {FIRST}; install nova_nb again")
    working = Path.cwd() / WORKING
    for file in source.rglob("*"):
        target = working / file.relative_to(source)
        if file.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return working
