"""Headless Chromium and a JupyterLab of its own: settings apart, no pop-ups, nothing asked of the network."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
IDLE = """() => { const k = window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel;
  return k && k.connectionStatus === 'connected' && k.status === 'idle'; }"""
RUN = """() => { window.__ran = undefined;
  window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => window.__ran = true); }"""


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One Chromium for this folder and no longer: while Playwright is open, its event loop counts as running in this thread,
    and no other test could run one."""
    path = chromium()
    if path is None:
        reason = "no Chromium on this machine (Debian: apt-get install chromium)"
        (pytest.fail if os.environ.get("NOVA_REQUIRE_BROWSER") == "1" else pytest.skip)(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that remembers faults and every request that left this machine, and fails the test for either."""
    context = browser.new_context(viewport={"width": 1360, "height": 1000})
    made = context.new_page()
    made.faults, made.outside = [], []
    made.on("pageerror", lambda error: made.faults.append(str(error)))
    made.on("dialog", lambda dialog: (made.faults.append("a dialog: " + dialog.message), dialog.dismiss()))
    local = ("http://127.0.0.1:", "ws://127.0.0.1:", "file://", "data:", "blob:")
    made.on("request", lambda request: request.url.startswith(local) or made.outside.append(request.url))
    yield made
    context.close()
    assert made.faults == []
    assert made.outside == []


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(url, folder) of a JupyterLab server."""
    home = tmp_path_factory.mktemp("lab")
    settings = home / "settings" / "@jupyterlab"
    for name, value in {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    }.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    folders = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "run", "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "NOVA_HOME": "nova",
    }  # fmt: skip
    env = {**os.environ, **{name: str(home / folder) for name, folder in folders.items()}, "PYTHONPATH": str(ROOT)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = home / "notebooks"
    root.mkdir()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={root}", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/api", timeout=2).read()
                break
            except OSError:
                assert server.poll() is None, (home / "log").read_text()
                time.sleep(0.1)
        yield url, root
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def notebook(page: Any, lab: Any) -> Iterator[Any]:
    """Open a notebook of these cells with its kernel ready; `run=True` runs all cells and waits."""
    url, root = lab

    def open(*cells: str, run: bool = True) -> Any:
        spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=spec)
        name = f"n{len(list(root.iterdir()))}.ipynb"
        nbformat.write(book, root / name)
        page.goto(f"{url}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.wait_for_function(IDLE, timeout=60_000)
        page.evaluate(RUN)
        if run:
            page.wait_for_function("() => window.__ran === true", timeout=120_000)
        return page

    yield open
    page.evaluate("() => window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.shutdown()")
