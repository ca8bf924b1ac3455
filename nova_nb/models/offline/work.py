"""What a task looks like from inside: moves, and small questions about what has been done this turn.

Knows: how to ask for a tool without asking twice, which command runs the tests, how to tell that
they pass. Does not know any particular task (`repair`, `features`, `lookup`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .edits import Helper, next_hunk
from .rules import Rule, forbidding
from .sight import Call, Sight

_UNUSABLE = re.compile(r"(?i)not found|No module named (pytest|unittest)|Ran 0 tests|NO TESTS RAN|no tests ran")
_FAILING = re.compile(r"^(FAILED|FAIL:|ERROR:)|\b\d+ (failed|error)|Traceback|^E  ", re.M)
_DENIED = re.compile(r"(?i)\b(denied|declined|not allowed|refused|permission|interrupted)\b")
_DEF = re.compile(r"^(?:(?P<path>[^\s:]+\.py):\d+:)?\s*def (?P<name>\w*utc\w*)\(", re.M | re.I)

RUNNERS = ("python -m unittest", "python3 -m unittest", "python -m pytest -q")


@dataclass(frozen=True)
class Move:
    """What the model does next: words, then calls. No calls: the turn is over."""

    text: str
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """A sight, asked about the work of the current turn."""

    sight: Sight

    def move(self, text: str, *calls: tuple[str, dict[str, Any]]) -> Move | None:
        """A move with those of the calls that make sense: the tool is there, no rule in sight forbids it, and the same call
        was not made since the last change to a file. None if nothing is left to do."""
        made = [(c.name, c.input) for c in self.since_edit]
        left = [c for c in calls if c[0] in self.sight.tools and c not in made and not self.forbidden(*c)]
        return Move(text, left) if left else None

    def forbidden(self, name: str, given: dict[str, Any]) -> Rule | None:
        """The rule in sight that forbids a call."""
        if name == "run_command":
            words = "tests" if re.search("unittest|pytest", given["command"]) else ""
            return forbidding(self.sight, True, f"{given['command']} {words}")
        return forbidding(self.sight, False, given["path"]) if name in ("patch_file", "write_file") else None

    @property
    def edits(self) -> list[Call]:
        """Changes that were made this turn."""
        return [c for c in self.sight.turn if c.name in ("patch_file", "write_file") and not c.failed]

    @property
    def since_edit(self) -> list[Call]:
        last = self.edits[-1].message if self.edits else -1
        return [c for c in self.sight.turn if c.message > last]

    @property
    def files(self) -> list[str]:
        """Paths that a visible listing or search names."""
        found: dict[str, None] = {}
        for call in self.sight.calls:
            if call.failed or not call.result:
                continue
            if call.name == "list_files":
                found.update((p.strip(), None) for p in call.result.splitlines() if re.fullmatch(r"\s*[\w./@+-]+\.\w+", p))
            elif call.name == "search":
                found.update((p, None) for p in re.findall(r"^([\w./@+-]+\.\w+):\d+:", call.result, re.M))
            elif call.name in ("read_file", "write_file", "patch_file"):
                found.setdefault(call.path)
        return [path.removeprefix("./") for path in found]

    def listing(self) -> Move | None:
        """Look at the files, unless their names are in sight."""
        return None if self.files else self.move("I look at what is here.", ("list_files", {"path": "."}))

    def reading(self, text: str, *paths: str) -> Move | None:
        """Read those of the files that are not in sight, together."""
        unseen = [p for p in paths if self.sight.file(p) is None]
        return self.move(text, *(("read_file", {"path": p}) for p in unseen)) if unseen else None

    def changing(self, path: str, target: str, text: str) -> Move | None:
        """The next hunk on the way of a visible file to its target."""
        now = self.sight.file(path)
        hunk = next_hunk(now, target) if now is not None else None
        return self.move(text, ("patch_file", {"path": path, "old": hunk[0], "new": hunk[1]})) if hunk else None

    @property
    def runs(self) -> list[Call]:
        """Test runs of this turn."""
        return [c for c in self.sight.turn if c.name == "run_command" and re.search("unittest|pytest", _command(c))]

    @property
    def last_run(self) -> Call | None:
        """The last run that told something, if no change came after it."""
        fresh = [c for c in self.runs if c in self.since_edit and c.result and not _UNUSABLE.search(c.result)]
        return fresh[-1] if fresh else None

    def testing(self, text: str) -> Move | None:
        """Run the tests, with the command that worked or the next one to try."""
        runs = [c for c in self.sight.calls if c.name == "run_command" and c.result]
        if any(c.failed and _DENIED.search(c.result or "") for c in self.runs):
            return None
        useless = {_command(c) for c in runs if _UNUSABLE.search(c.result or "")}
        worked = [_command(c) for c in runs if _command(c) in RUNNERS and _command(c) not in useless]
        pytest_first = any(re.search(r"(^|/)(conftest\.py|pytest\.ini)$", f) for f in self.files)
        order = [*worked[-1:], *sorted(RUNNERS, key=lambda r: ("pytest" in r) != pytest_first)]
        for command in order:
            if command not in useless:
                return self.move(text, ("run_command", {"command": command}))
        return None

    @property
    def helper(self) -> Helper | None:
        """A function of the project that gives the time in UTC, if the request shows one."""
        for call in self.sight.calls:
            if call.failed or call.name not in ("read_file", "search"):
                continue
            for found in _DEF.finditer(call.result or ""):
                path = found["path"] or call.path
                if path.endswith(".py"):
                    return Helper(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), found["name"])
        return None


def passed(run: Call) -> bool:
    """Whether a test run shows no failure."""
    return not run.failed and not _FAILING.search(run.result or "")


def failing(run: Call) -> list[str]:
    """Names of the failing tests: `tests.test_orders.TestOrders.test_x`."""
    names = re.findall(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)\)", run.result or "", re.M)
    return names or re.findall(r"^(?:FAILED|ERROR) (\S+)", run.result or "", re.M)


def outcome(run: Call | None) -> str:
    """A test run in a few words."""
    if run is None:
        return "I could not run the tests."
    count = re.search(r"Ran (\d+) tests?|(\d+) passed", run.result or "")
    number = f" ({count[1] or count[2]})" if count else ""
    return f"The tests pass{number}." if passed(run) else f"The tests fail: {', '.join(failing(run)) or 'the run ended badly'}."


def _command(call: Call) -> str:
    return str(call.input.get("command", ""))
