"""Tasks that change how time is kept: a failing test repaired, a new moment recorded.

Knows: the path from a failing test to the line that keeps the time, and the two ways of writing it.
Which of the two is chosen depends only on the rules in sight (`rules.choose`): this is the seeds' lesson.
"""

from __future__ import annotations

import re

from . import edits
from .rules import Choice, choose
from .sight import Call
from .work import Move, Work, failing, outcome, passed


def repair(work: Work, task: str) -> Move:
    """Make the tests pass: run, read, change, run again."""
    move = work.listing()
    if move:
        return move
    run = work.last_run
    if run is None and not work.edits:
        move = work.testing("I run the tests.")
        if move:
            return move
    if run is not None and passed(run) and not work.edits:
        return Move(f"{outcome(run)} There is nothing to repair.")
    tests = _named(work, failing(run) if run else [], task)
    unread = any(work.sight.file(t) is None for t in tests)
    move = work.reading(
        f"I read {'the test and what it tests' if unread else 'what the test uses'}.", *tests, *_tested(work, tests)
    )
    if move:
        return move
    return _rewrite(work, [p for p in work.files if p not in tests]) or _unknown(run)


def retime(work: Work) -> Move:
    """Bring every place that keeps a time to what holds now."""
    pattern = r"CURRENT_TIMESTAMP|datetime\.(now|utcnow|today)\(\)"
    if not work.edits:
        move = work.move("I look for the places that keep a time.", ("search", {"pattern": pattern, "glob": "*.py"}))
        if move:
            return move
    paths = [p for p in _search(work, pattern, r"^([\w./@+-]+\.py):\d+:") if not re.search(r"(^|/)test_", p)]
    move = work.reading("I read them.", *dict.fromkeys(paths))
    return move or _rewrite(work, paths) or Move("I see no place that needs another way of keeping time.")


def _rewrite(work: Work, paths: list[str]) -> Move | None:
    """Change those of the files that keep a time, run the tests, report; None if there is nothing to change."""
    choice = choose(work.sight, "timestamps")
    suspects = [p for p in dict.fromkeys(paths) if p.endswith(".py") and edits.TIME.search(work.sight.file(p) or "")]
    if suspects and not work.edits:
        move = _look_for_helper(work, choice)
        if move:
            return move
    for path in suspects:
        move = work.changing(path, _kept(work, path, choice), _reason(choice))
        if move:
            return move
    if not work.edits:
        rule = next((r for p in suspects if (r := work.forbidden("patch_file", {"path": p}))), None)
        return Move(f"The cause is in {suspects[0]}, which I may not change: “{rule.text}” ({rule.where})") if rule else None
    move = work.testing("I run the tests again.") if work.last_run is None else None
    return move or Move(f"{_done(work)} {_quoted(choice)} {outcome(work.last_run)}")


def _unknown(run: Call | None) -> Move:
    shown = _assertion(run.result or "") if run else ""
    return Move(f"I could not find the cause. {f'The failing check is: {shown}' if shown else 'I see no failing test.'}")


def record(work: Work, noun: str, verb: str) -> Move:
    """Add the moment at which something happened: a column `<verb>_at` and a function `mark_<verb>`."""
    move = work.listing()
    if move:
        return move
    choice = choose(work.sight, "timestamps")
    utc = choice.value == "utc"
    schema = _search(work, r"CREATE TABLE", r"^([\w./-]+\.py):\d+:.*CREATE TABLE")
    looks = [("search", {"pattern": "CREATE TABLE", "glob": "*.py"})] if not schema else []
    if utc and not work.helper:
        looks.append(("search", {"pattern": r"def \w*utc", "glob": "*.py"}))
    move = work.move("I look for the table and for how the project keeps time." if utc else "I look for the table.", *looks)
    if move:
        return move
    module = next((p for p in work.files if re.search(rf"(^|/){noun}s?\.py$", p) and "test" not in p), None)
    if module is None or not schema:
        return Move(f"I see no module or no table for “{noun}”, so I changed nothing.")
    move = work.reading("I read both.", schema[0], module)
    if move:
        return move
    table, text = f"{noun}s", work.sight.file(schema[0])
    if text is not None:
        move = work.changing(schema[0], edits.with_column(text, table, f"{verb}_at"), f"The table gets a column {verb}_at.")
        if move:
            return move
    text = work.sight.file(module)
    if text is not None:
        marker = _marker(noun, table, verb, choice)
        target = edits.with_function(text, f"mark_{verb}", edits.utc_times(marker, work.helper) if utc else marker)
        target = edits.with_imports(target, work.helper)
        move = work.changing(module, target, _reason(choice))
        if move:
            return move
    move = work.testing("I run the tests.") if work.last_run is None else None
    if move:
        return move
    if not work.edits:
        return Move(f"Nothing to do: {module} has mark_{verb} already, or I could not read it.")
    return Move(f"{_done(work)} `mark_{verb}` in {module} records it. {_quoted(choice)} {outcome(work.last_run)}")


def _kept(work: Work, path: str, choice: Choice) -> str:
    text = work.sight.file(path) or ""
    return edits.with_utc(text, work.helper) if choice.value == "utc" else edits.with_database_time(text, choice.because)


def _marker(noun: str, table: str, verb: str, choice: Choice) -> str:
    article = "an" if noun[0] in "aeiou" else "a"
    head = f'def mark_{verb}(db, number):\n    """Record that {article} {noun} is {verb}."""\n'
    line = f'    db.execute("UPDATE {table} SET {verb}_at = CURRENT_TIMESTAMP WHERE id = ?", (number,))\n'
    return head + ("" if choice.value == "utc" else f"    # {choice.because}\n") + line


def _look_for_helper(work: Work, choice: Choice) -> Move | None:
    if choice.value != "utc" or work.helper:
        return None
    return work.move(
        "I look whether the project has a clock of its own.", ("search", {"pattern": r"def \w*utc", "glob": "*.py"})
    )


def _named(work: Work, failed: list[str], task: str) -> list[str]:
    """Paths of the test modules that failed or that the task names."""
    names = " ".join([*failed, task])
    return [p for p in work.files if p.endswith(".py") and re.search(r"(^|/)test_", p) and _stem(p) in names]


def _tested(work: Work, tests: list[str]) -> list[str]:
    """Paths of the project's modules that the tests import, as far as they have been read; else those named alike."""
    modules: list[str] = []
    for test in tests:
        text = work.sight.file(test)
        if text is None:
            modules += [p for p in work.files if f"test_{_stem(p)}" == _stem(test)]
            continue
        for name in re.findall(r"^from ([\w.]+) import|^import ([\w.]+)", text, re.M):
            path = (name[0] or name[1]).replace(".", "/") + ".py"
            modules += [p for p in work.files if p == path]
    return list(dict.fromkeys(modules))


def _search(work: Work, pattern: str, line: str) -> list[str]:
    results = [c.result or "" for c in work.sight.calls if c.name == "search" and c.input.get("pattern") == pattern]
    return [path for result in results for path in re.findall(line, result, re.M)]


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".py")


def _assertion(result: str) -> str:
    found = re.findall(r"^(?:E\s+)?(\w*Error: .*)$", result, re.M)
    return found[-1] if found else ""


def _reason(choice: Choice) -> str:
    if choice.rule is None:
        return choice.because
    return f"I follow the rule in {choice.rule.where}."


def _quoted(choice: Choice) -> str:
    if choice.rule is None:
        return f"I see no rule about timestamps, so I did what I usually do: {choice.because[0].lower()}{choice.because[1:]}"
    return f"I followed what stands in {choice.rule.where}: “{choice.rule.text}”"


def _done(work: Work) -> str:
    paths = list(dict.fromkeys(call.path for call in work.edits))
    return f"I changed {' and '.join(paths)}."
