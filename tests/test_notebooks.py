"""Notebooks in the repository are clean: ids, outputs in order, no error, no widget state, no key, nothing of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
KEY = re.compile(r"sk-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_is_clean(path: Path):
    text = path.read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "saved widget state makes exports ask a CDN; clear it"
    assert not KEY.search(text), "something that looks like a key is in the notebook"
    assert "/root/" not in text and "/work/" not in text and "/home/" not in text, "a path of one machine is in an output"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1)), "run all cells in order, then save"
    for cell in code:
        assert not any(output.output_type == "error" for output in cell.outputs), cell.source
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")


def test_there_are_notebooks_and_they_are_numbered():
    assert NOTEBOOKS
    assert all(re.match(r"\d\d_", path.name) for path in NOTEBOOKS)
