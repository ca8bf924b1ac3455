"""The house rules that a machine can hold: tiers, rooms of third parties, one clock, small modules, a light import."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nova_nb

ROOT = Path(nova_nb.__file__).parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".") or "__init__": path
    for path in sorted(ROOT.rglob("*.py"))
}

# A room may import itself and what its line names.
BASE = {"errors", "ids", "settings"}
HISTORY = BASE | {"history"}
PROJECTION = HISTORY | {"projection"}
FOREIGN = PROJECTION | {"foreign"}
MODELS = FOREIGN | {"memory", "models"}
TOP = MODELS | {"agent", "diagnosis", "views", "session", "widgets", "examples", "lab"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "ids": BASE,
    "settings": BASE,
    "examples": BASE,
    "history": BASE,
    "projection": HISTORY,
    "foreign": PROJECTION,
    "memory": PROJECTION,
    "models": MODELS,
    "agent": MODELS,
    "diagnosis": FOREIGN | {"memory"},
    "views": FOREIGN | {"diagnosis"},
    "widgets": TOP,
    "session": TOP,
    "magics": TOP,
    "lab": BASE,
    "cli": TOP,
    "__init__": {"errors"},
}

# The face of the kernel hands out things of upper rooms; it imports them when they are asked for.
LAZY: dict[str, set[str]] = {"agent.kernel": {"session", "widgets"}, "__init__": {"magics"}}

EVERYWHERE = {"msgspec", "pydantic", "typing_extensions"}
THIRD_PARTIES: dict[str, tuple[str, ...]] = {
    "anthropic": ("models.anthropic",),
    "openai": ("models.openai",),
    "mcp": ("memory.server", "agent.mcp"),
    "ipywidgets": ("widgets",),
    "anywidget": ("widgets",),
    "traitlets": ("widgets",),
    "plotly": ("widgets",),
    "IPython": ("widgets", "magics"),
    "filelock": ("history", "memory"),
    "pydantic_core": ("foreign.documents",),
    "zstandard": ("foreign.codex",),
    "detect_secrets": ("diagnosis.share",),
    "markdown_it": ("diagnosis.share",),
    "tqdm": ("cli",),
}

CLOCK = {
    "time": {"time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "random": {"*"},
    "secrets": {"*"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom"},
}


def room(module: str) -> str:
    return module.split(".")[0]


def imports(module: str) -> Iterator[tuple[str, bool, int]]:
    """(absolute dotted name, inside a function?, line) of each import that runs; those for type checkers do not."""
    path = MODULES[module]
    inside = ["nova_nb", *path.relative_to(ROOT).parts[:-1]]

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, lazy, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = inside[: len(inside) - child.level + 1] if child.level else []
                name = ".".join([*base, *([child.module] if child.module else [])])
                if name == "nova_nb":
                    yield from ((f"nova_nb.{alias.name}", lazy, child.lineno) for alias in child.names)
                else:
                    yield name, lazy, child.lineno
            else:
                yield from visit(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    yield from visit(ast.parse(path.read_text("utf-8")), False)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_lower_rooms(module: str):
    here = room(module)
    assert here in MAY_IMPORT, f"{module}: give the new room {here!r} a line in MAY_IMPORT"
    for name, lazy, line in imports(module):
        if name.startswith("nova_nb.") and name != "nova_nb.__version__":
            there = room(name.removeprefix("nova_nb."))
            allowed = MAY_IMPORT[here] | {here} | (LAZY.get(module, set()) if lazy else set())
            assert there in allowed, f"{module}, line {line}: {here} may not import {there}"


@pytest.mark.parametrize("module", MODULES)
def test_third_parties_stay_in_their_rooms(module: str):
    for name, _lazy, line in imports(module):
        package = name.split(".")[0]
        if package == "nova_nb" or package in sys.stdlib_module_names or package in EVERYWHERE:
            continue
        rooms = THIRD_PARTIES.get(package)
        assert rooms, f"{module}, line {line}: give {package} a room in THIRD_PARTIES"
        assert module.startswith(rooms), f"{module}, line {line}: {package} belongs in {' or '.join(rooms)}"


@pytest.mark.parametrize("module", [m for m in MODULES if m != "ids"])
def test_time_and_randomness_are_read_in_ids_alone(module: str):
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            names = CLOCK.get(owner, set())
            assert not names & {node.attr, "*"}, f"{module}, line {node.lineno}: {owner}.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "random", "secrets", "uuid"):
            banned = {alias.name for alias in node.names} & (CLOCK[node.module] | {"choice", "random", "token_hex"})
            assert not banned, f"{module}, line {node.lineno}: {banned}"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_small_and_says_what_it_knows(module: str):
    text = MODULES[module].read_text("utf-8")
    lines = text.count("\n")
    assert lines <= 400, f"{module} has {lines} lines: split it"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{module} has no docstring"


def test_the_public_names_are_sorted_exist_and_are_documented():
    assert nova_nb.__all__ == sorted(nova_nb.__all__)
    for name in nova_nb.__all__:
        try:
            value = getattr(nova_nb, name)
        except ModuleNotFoundError as error:
            pytest.fail(f"{name}: {error}")
        assert value.__doc__, f"{name} has no docstring"
    assert set(nova_nb.__all__) <= set(dir(nova_nb))


@pytest.mark.parametrize("module", [m for m in MODULES if m != "__init__"])
def test_every_module_can_be_imported(module: str):
    importlib.import_module(f"nova_nb.{module}")


def test_import_nova_nb_loads_nothing_but_itself_and_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import nova_nb; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    loaded = set(run.stdout.split())
    assert "nova_nb" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"nova_nb"}
    assert not loaded & {"asyncio", "sqlite3", "subprocess"}, "import nova_nb became heavy"
