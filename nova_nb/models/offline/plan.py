"""From a sight to the next move: which kind of task this is, and who knows how to do it.

Knows: how a person words a task. Does not know how the tasks are done (`repair`, `answers`,
`summary`, `memories`). A plan is not kept anywhere: it is found anew from each request.
"""

from __future__ import annotations

import re

from . import answers, edits, memories, repair, summary
from .rules import binding, choose, renames, sentences
from .sight import Sight
from .work import Move, Work, outcome

MOST_READ = 4_000
"""characters of a person's words that decide what kind of task it is"""

_RECALL = re.compile(
    r"(?i)\b(what|which|why|how) (did|have|had) (we|i|you)\b.*\b(decide|agree|say|said|settle|choose|tell|told|want)"
    r"|\b(did|do|have) you (keep|kept|remember|forget|forgotten|recall|still know|know what)\b"
    r"|\bwhat (was|is|were|are) (the|our|my) \w*\s*(rule|convention|decision|polic|preference|agreement)"
    r"|\bwhich [\w ]+ (do|should) we use\b|\bremind me\b|约定|还记得|我们决定"
)
_GREETING = re.compile(
    r"(?i)\W*(hi|hello|hey|thanks|thank you|ok|okay|good (morning|evening|day)|你好|谢谢)\b[\w\s]{0,20}\W*\Z"
)
_RECORD = re.compile(
    r"(?i)\b(?:record|store|save|note|keep|remember|track) (?:the (?:time|moment) )?"
    r"when (?:an?|the) (\w+) (?:is|was|gets) (\w+)"
)
_COLUMN = re.compile(r"(?i)\badd (?:a |the )?(?:column |field )?`?(\w+)_at`? to (?:the )?`?(\w+?)s?`?(?: table)?\b")
_TESTS = re.compile(
    r"(?i)\btests?\b.*\b(fail|break|broken|red|pass|green)|\b(fail|fix|repair)\w*\b.*\btests?\b|\btest_\w+.*\bfail"
)
_TIMES = re.compile(r"(?i)\b(fix|repair|correct|change|convert|migrate)\b.*\b(timestamps?|times?|UTC|CURRENT_TIMESTAMP)\b")
_RUN = re.compile(r"(?i)\brun\s+(?:`([^`]+)`|(?:the\s+)?([\w./-]+\.(?:py|sh)(?:\s+\d+)?))")
_RUN_TESTS = re.compile(r"(?i)\brun (?:all |the )*(?:unit )?tests?\b")
_INSTALL = re.compile(
    r"(?i)\b(?:install|add) (?:the )?(?:package|dependency|library) `?([@\w/.-]+)`?"
    r"|\b(?:p?npm|yarn) (?:install|add) `?([@\w/.-]+)"
)
_RENAME = re.compile(r"(?i)^(?:please |now )?rename\s+`?([A-Za-z_][\w.]*)`?\s+(?:to|into)\s+`?([A-Za-z_]\w*)`?")
_CHANGED = re.compile(r"(?i)\bwhat (has |have |did )?(you |we |I )?chang|\bgit (diff|status)\b|\bshow (me )?the diff\b")


def next_move(sight: Sight) -> Move:
    """What the model does, as a pure function of what it sees."""
    for side in (summary.answer, memories.select, memories.extract):
        text = side(sight)
        if text is not None:
            return Move(text)
    work = Work(sight)
    task = wanted(sight)[:MOST_READ]
    if _RECALL.search(sight.asked.text[:MOST_READ]):
        return answers.recall(sight)
    if not task or _GREETING.match(task):
        return _understood(sight)
    move = _known(work, task) or answers.from_output(work, None, task) or answers.explore(work, _renamed(sight, task))
    return move if move.text or move.calls else Move("I have nothing to add.")


def _renamed(sight: Sight, task: str) -> str:
    """The task with the names that hold now, where a rename is in sight."""
    for old, new, _ in renames(sight):
        task = edits.with_name(task, old, new)
    return task


def wanted(sight: Sight) -> str:
    """The part of what the person said that asks for something; of a summary, the work that it says is open."""
    if sight.asked.role == "rebuilt":
        return summary.open_work(sight.asked.text)
    parts = sentences(sight.asked.text)
    return " ".join(s for s in parts if not binding(s) or _RENAME.search(s) or _asks(s))


def _asks(sentence: str) -> bool:
    return any(p.search(sentence) for p in (_RECORD, _COLUMN, _TESTS, _TIMES, _RUN, _RUN_TESTS, _INSTALL, _CHANGED))


def _known(work: Work, task: str) -> Move | None:
    """A move for the kinds of task that are known; None for any other."""
    if found := _RENAME.search(task):
        return rename(work, found[1], found[2])
    if found := _RECORD.search(task):
        return repair.record(work, found[1].lower(), found[2].lower())
    if found := _COLUMN.search(task):
        return repair.record(work, found[2].lower(), found[1].lower())
    if _TESTS.search(task):
        return repair.repair(work, task)
    if _TIMES.search(task):
        return repair.retime(work)
    if _RUN_TESTS.search(task):
        return work.listing() or (None if work.last_run else work.testing("I run the tests.")) or Move(outcome(work.last_run))
    if found := _RUN.search(task):
        command = found[1] or (f"python {found[2]}" if ".py" in found[2] else f"sh {found[2]}")
        return answers.from_output(work, command, task[: found.start()] + task[found.end() :])
    if found := _INSTALL.search(task):
        return install(work, found[1] or found[2])
    if _CHANGED.search(task):
        return changed(work)
    return None


def rename(work: Work, old: str, new: str) -> Move:
    """Rename a symbol wherever a search finds it."""
    name, pattern = old.rsplit(".", 1)[-1], rf"\b{re.escape(old.rsplit('.', 1)[-1])}\b"
    if not work.edits:
        move = work.move(f"I search for {name}.", ("search", {"pattern": pattern}))
        if move:
            return move
    hits = [c.result or "" for c in work.sight.turn if c.name == "search" and c.input.get("pattern") == pattern]
    paths = list(dict.fromkeys(p for r in hits for p in re.findall(r"^([\w./@+-]+\.py):\d+:", r, re.M)))
    move = work.reading("I read where it is used.", *paths)
    if move:
        return move
    for path in paths:
        move = work.changing(path, edits.with_name(work.sight.file(path) or "", name, new), f"{name} becomes {new} in {path}.")
        if move:
            return move
    if not work.edits:
        return Move(f"I found no {name} to rename.")
    move = work.testing("I run the tests.") if work.last_run is None else None
    return move or Move(
        f"{name} is now {new} in {', '.join(dict.fromkeys(c.path for c in work.edits))}. {outcome(work.last_run)}"
    )


def install(work: Work, package: str) -> Move:
    """Add a dependency with the package manager that the rules name, or with the habit."""
    choice = choose(work.sight, "package manager")
    verb = "install" if choice.value == "npm" else "add"
    command = f"{choice.value} {verb} {package}"
    ran = [c for c in work.sight.turn if c.name == "run_command" and c.input.get("command") == command]
    why = f"“{choice.rule.text}” ({choice.rule.where})" if choice.rule else f"I see no rule about it. {choice.because}"
    if not ran:
        move = work.move(f"I use {choice.value}: {why}", ("run_command", {"command": command}))
        if move:
            return move
    done = "ran" if ran and not ran[-1].failed else "did not work"
    return Move(f"`{command}` {done}. I used {choice.value}: {why}")


def changed(work: Work) -> Move:
    """What git says about changes, or what this session shows of them."""
    seen = [c for c in work.sight.turn if c.name in ("git_status", "git_diff")]
    if not any(c.failed for c in seen) and len(seen) < 2:
        move = work.move("I look at the difference." if seen else "I ask git.", ("git_diff" if seen else "git_status", {}))
        if move:
            return move
    good = [c.result or "" for c in seen if not c.failed]
    if good:
        return Move("\n".join(good))
    paths = {c.path for c in work.sight.calls if c.name in ("patch_file", "write_file") and not c.failed}
    told = f"I see that I changed {', '.join(sorted(paths))}." if paths else "I see no changes in this conversation."
    return Move(f"Git cannot tell here. {told}")


def _understood(sight: Sight) -> Move:
    said = [s for s in sentences(sight.asked.text) if binding(s)]
    if not said:
        return Move("Tell me what to do, and I will look at the files.")
    also = [f"{new} instead of {old}" for old, new, rule in renames(sight) if rule.message == sight.asked.message]
    return Move("Understood: " + " ".join(said) + (f" I will write {', '.join(also)}." if also else ""))
