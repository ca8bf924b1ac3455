"""Answers from what can be seen: what was decided, what a long output says, or that nothing is in sight.

Knows: how to find the words of a question in the request, and how to read on in a result that was
written to a file. Never answers from anywhere else.
"""

from __future__ import annotations

import re

from .rules import Rule, rules, sentences, settles, topics
from .sight import Call, Sight, whole
from .work import Move, Work

_STOP = frozenset(
    """
    a about after again agree agreed all also an and any are as at be been before but by can convention could decide decided
    decision describe did do does done each earlier explain find for from get give had has have how i if in is it its just
    keep kept know last let like look made make many me mention mentioned more most my need no not now of on one or our out
    over please policy read remember rule rules run said say see session settle should show so some still tell than that the
    their them then there these they this to told too up us use used using was we were what when where which who why will
    with work works would you your
    """.split()  # noqa: SIM905
)
_NOTE = re.compile(r"\n?\[lines (\d+)-(\d+) of \d+[^\]\n]*\]\s*\Z")
_LAST = re.compile(r"(?i)\b(last|final) (line|order|row|entry|record)\b")
RANGE = 60
"""lines of a stored result that are read at a time"""


def words(text: str) -> list[str]:
    """What a question is about: its content words in lower case, plural marks taken off, in order.

    >>> words("What did we decide about timestamps and order 173?")
    ['timestamp', 'order', '173']
    """
    found = re.findall(r"[A-Za-z_][\w.]*\w|\d+|[\u4e00-\u9fff]{2,}", text)
    kept = [w.lower() for w in found if w.lower() not in _STOP and w.lower().removesuffix("s") not in _STOP]
    return list(dict.fromkeys(w.removesuffix("s") if len(w) > 3 else w for w in kept))


def recall(sight: Sight) -> Move:
    """What was decided: quotes with their places, or that nothing is in sight."""
    question = sight.asked
    about = words(question.text)
    named = [n for n, t in topics().items() if re.search(t["about"], question.text, re.I) or _names_option(n, question.text)]
    generic = sight.conduct
    found = [
        r for r in rules(sight) if not (r.message == question.message and r.text in question.text) and r.text not in generic
    ]
    hits = [r for r in found if any(settles(r.text, n) for n in named) or _mentions(r.text, about)]
    if not about and not named:
        hits = found
    if not hits:
        hits = [Rule(s, p.where, p.message) for p in sight.passages if p is not question and p.role not in ("tool", "system")
                for s in sentences(p.text) if not s.endswith("?") and len(s) < 400 and _mentions(s, about)]  # fmt: skip
    subject = " ".join(about) or "that"
    if not hits:
        return Move(f"I see nothing about {subject} in what I was given. If it was said, it is not in this request.")
    hits = list({h.text: h for h in hits}.values())[:-4:-1]
    return Move("This is what I can see:\n" + "\n".join(f"- “{h.text}” ({h.where})" for h in hits))


def _names_option(topic: str, text: str) -> bool:
    return any(re.search(option["words"], text, re.I) for option in topics()[topic]["option"])


def _mentions(sentence: str, about: list[str]) -> bool:
    there = set(words(sentence))
    return bool(about) and sum(w in there for w in about) >= max(1, (len(about) + 1) // 2)


def from_output(work: Work, command: str | None, question: str) -> Move | None:
    """Run a command (unless its output is in sight) and answer a question from what it says."""
    sight = work.sight
    runs = [c for c in sight.turn if c.name == "run_command" and (command is None or c.input.get("command") == command)]
    if not runs and command is not None:
        move = work.move(f"I run `{command}`.", ("run_command", {"command": command}))
        return move or Move("I have no tool to run commands with.")
    calls = runs or [c for c in sight.calls if c.spilled]
    if not calls:
        return None
    if calls[-1].failed:
        return _retry(work, calls[-1])
    return _found(calls, sight, question) or _read_on(work, calls[-1], question)


def _retry(work: Work, call: Call) -> Move:
    command = str(call.input.get("command", ""))
    if re.search(r"(?i)python: .*not found", call.result or "") and command.startswith("python "):
        move = work.move("I try python3.", ("run_command", {"command": command.replace("python ", "python3 ", 1)}))
        if move:
            return move
    last = (call.result or "").strip().splitlines()[-1:] or ["no output"]
    return Move(f"`{command}` did not work: {last[0]}")


def _found(calls: list[Call], sight: Sight, question: str) -> Move | None:
    """Lines of the outputs in sight that hold everything the question names; or the last line, if that is asked for."""
    command = str(calls[-1].input.get("command", ""))
    about = [w for w in words(question) if w not in words(command)]
    texts = [(c.result or "", f"`{c.input.get('command')}`") for c in calls]
    for page in (p for c in calls if c.spilled for p in _pages(sight, c.spilled)):
        texts.append((_NOTE.sub("", page.result or ""), f"{page.input['path']}, from line {page.input.get('offset', 1)}"))
    if _LAST.search(question) or not about:
        end = next((t for t in reversed(texts) if calls[-1].spilled is None or _reaches_end(sight, calls[-1], t[1])), None)
        lines = end[0].strip().splitlines() if end else []
        return Move(f"{lines[-1]}\n(the last line, from {end[1]})") if end and lines else None
    for text, where in texts:
        for line in text.splitlines():
            if set(about) <= set(words(line)):
                return Move(f"{line.strip()}\n(from {where})")
    return None


def _pages(sight: Sight, path: str) -> list[Call]:
    """What was read of a stored result."""
    return [c for c in sight.calls if c.name == "read_file" and c.input.get("path") == path and not c.failed]


def _reaches_end(sight: Sight, call: Call, where: str) -> bool:
    last = [p for p in _pages(sight, call.spilled or "") if max(_shown(p), default=0) >= _total(call)]
    return any(where == f"{p.input['path']}, from line {p.input.get('offset', 1)}" for p in last)


def _shown(page: Call) -> range:
    """The lines that a page shows."""
    note = _NOTE.search(page.result or "")
    if note:
        return range(int(note[1]), int(note[2]) + 1)
    first = int(page.input.get("offset") or 1)
    return range(first, first + len((page.result or "").splitlines()))


def _total(call: Call) -> int:
    """Lines of a stored result, as its placeholder says."""
    found = re.search(r"([\d,]+) lines", call.result or "")
    return int(found[1].replace(",", "")) if found else 0


def _read_on(work: Work, call: Call, question: str) -> Move:
    """The range of a stored result where the answer is likely, else the first one that was not read; or the honest end."""
    path, about = call.spilled, ", ".join(words(question))
    if path is None:
        return Move(f"I see the output of `{call.input.get('command')}`, and it says nothing about {about}.")
    pages, total = _pages(work.sight, path), _total(call)
    seen = {line for page in pages for line in _shown(page)}
    offset = next(n for n in range(1, max(total, len(seen)) + 2) if n not in seen)
    limit = RANGE
    likely = _likely(call, question, total)
    if likely is not None and not pages:
        offset, limit = max(1, likely - 5), 20
    if not total or offset <= total:
        move = work.move(
            "The preview does not show it; I read the stored output.",
            ("read_file", {"path": path, "offset": offset, "limit": limit}),
        )
        if move:
            return move
    return Move(f"I read the whole stored output ({path}) and found nothing about {about}.")


def _likely(call: Call, question: str, total: int) -> int | None:
    """A guess at the line: the end if that is asked for, or the line N where the preview numbers its lines and N is named."""
    if _LAST.search(question):
        return max(1, total - 10)
    shown = (call.result or "").split("characters:\n")[-1].splitlines()[:3]
    numbered = len(shown) == 3 and all(str(n) in words(line) for n, line in enumerate(shown, 1))
    named = [int(w) for w in words(question) if w.isdigit() and int(w) <= total]
    return named[0] if numbered and named else None


def explore(work: Work, task: str) -> Move:
    """Look around for what a task names, read the best hits, and say what is there."""
    about = words(task)
    move = work.listing()
    if move:
        return move
    if not about:
        shown = ", ".join(work.files[:12])
        return Move(f"These files are here: {shown}." if shown else "Tell me what to do, and I will look at the files.")
    pattern = "|".join(re.escape(w) for w in about[:4])
    named = [
        p for p in work.files if any(w in words(re.sub(r"[/._-]", " ", p)) or f"/{p.lower()}".endswith(f"/{w}") for w in about)
    ]
    searches = [c for c in work.sight.turn if c.name == "search"]
    if not named and not searches:
        move = work.move("I search for it.", ("search", {"pattern": f"(?i){pattern}"}))
        if move:
            return move
    paths = named or [p for p in work.files if any(p in (c.result or "") for c in searches)]
    move = work.reading("I read what looks closest.", *paths[:3])
    if move:
        return move
    lines = []
    for call in work.sight.calls:
        if call.name == "read_file" and call.path in paths and call.result and not call.failed:
            note = "" if whole(call) else " (only a part of it is in sight)"
            first = re.findall(r'^\s*(?:"""|#+\s*)?(\w.*?)(?:""")?\s*$', call.result, re.M)[:1]
            names = re.findall(r"^(?:def|class) (\w+)", call.result, re.M)
            has = f" It defines {', '.join(names[:8])}." if names else ""
            lines.append(f"- {call.path}: {first[0] if first else 'no text'}{note}{has}")
    if not lines:
        return Move(f"I found nothing about {', '.join(about)} in the files that I can see.")
    return Move("This is what I found:\n" + "\n".join(dict.fromkeys(lines)))
