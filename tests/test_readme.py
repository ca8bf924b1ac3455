"""The README's examples run as they are written, one after another in a folder of their own."""

from __future__ import annotations

import ast
import re
import shutil
from inspect import CO_COROUTINE
from pathlib import Path

import pytest

import nova_nb as nova

EXAMPLES = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[2][:30])
async def test_an_example_runs_as_written(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(nova.examples.path("claude-code-compaction"), "3f2c….jsonl")
    names: dict[str, object] = {}
    for statement in ast.parse(example).body:
        code = compile(ast.Module([statement], []), "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, names)
        if code.co_flags & CO_COROUTINE:
            await value
    if "run" in names:
        assert "The tests pass" in str(await names["run"])  # type: ignore[misc]


def test_there_is_an_example_of_each_of_the_three():
    assert [
        bool(re.search(word, text)) for word, text in zip(("AgentKernel", "explore", "diagnose"), EXAMPLES, strict=True)
    ] == [True] * 3
