"""Reading rules of SWE-agent trajectories (`.traj`), versions 0 and 1.

Knows: `history` is the whole log; what was sent went through history processors, which cut old
observations. Newer files keep it: `query` of a step is that call's input; `messages` (1.0) was
taken after the step, with its answer and observation, so it is the input of the NEXT call. Older
files keep neither: there the processor that `replay_config` names is applied, or the default of
version 0 (the five newest observations whole). A retry agent keeps its runs in `attempts`: each
is a session of its own. Token counts exist only for a whole run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionNotFound
from ..history.events import ForeignRow
from ..history.log import Log
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, batched
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, read_bytes, row_lines

name = "swe-agent"

ASSUMED = "the file names no history processor; the default of version 0, the five newest observations whole, is assumed"
_OWN = {"agent", "message_type", "thought", "action", "is_demo", "tags", "tool_call_ids", "extra"}


def sniff(path: Path, head: bytes) -> bool:
    value = peek(head)
    if not isinstance(value, dict):
        return False
    for run in (value, *(value["attempts"][:1] if isinstance(value.get("attempts"), list) else [])):
        rows = run.get("trajectory") if isinstance(run, dict) else None
        first = rows[0] if isinstance(rows, list) and rows else None
        if (
            isinstance(rows, list)
            and isinstance(first, dict)
            and "action" in first
            and ("observation" in first or len(rows) == 1)
        ):
            return True
    return "trajectory" in value and "history" in value


def _runs(value: Any) -> dict[str, dict[str, Any]]:
    """The runs of a file: the main one under "", attempts under their number."""
    if not isinstance(value, dict):
        return {}
    attempts = value["attempts"] if isinstance(value.get("attempts"), list) else []
    runs = {f"attempt-{n}": a for n, a in enumerate(attempts, 1) if isinstance(a, dict)}
    return runs if runs and not value.get("trajectory") else {**runs, "": value}


def list_sessions(path: Path) -> list[SessionInfo]:
    stat = path.stat()
    value, _ = load(read_bytes(path))
    return [SessionInfo(str(path), name, id, "", stat.st_mtime, stat.st_size) for id in _runs(value)]


def read(path: Path, session_id: str | None = None) -> Log:
    data = read_bytes(path)
    value, damage = load(data)
    runs = _runs(value)
    if session_id is not None and session_id not in runs:
        raise SessionNotFound(
            f"{path}: no run {session_id!r} here; it holds {', '.join(filter(None, runs)) or 'one run without a name'}"
        )
    chosen = session_id if session_id is not None else (list(runs)[-1] if runs else "")
    run = runs.get(chosen, {})
    build = Builder(damage=damage)
    taken = [s for s in run.get("trajectory") or [] if isinstance(s, dict)] if isinstance(run.get("trajectory"), list) else []
    rows, lines = _history(run, taken), row_lines(data, "history") if not chosen else []
    items: list[Item] = []
    for i, row in enumerate(rows):
        line = lines[i] if i < len(lines) else 1
        wire = wire_of(row)
        role, blocks = words.chat(wire)
        meta = {"demo": True} if row.get("is_demo") else {}
        event = build.message(f"h{i + 1}", line, role, blocks, meta=meta)
        items.append(Item(event.id, role, blocks, wire))
    system = [b for item in items[:1] if item.role == "system" for b in item.blocks]
    if system:
        build.prompt(1, system)
    answers = [i for i, row in enumerate(rows) if row.get("role") == "assistant" and not row.get("is_demo")]
    for n in range(len(answers), len(taken)):
        build.add(ForeignRow(id=build.unique(f"step-{n + 1}", 1), kind="step", parent=build.last, data=taken[n]), 1)
    native = _calls(items, rows, taken, answers, _processor(value, run), build)
    version = "1" if isinstance(value, dict) and "replay_config" in value else "0" if rows else None
    return build.log(path, name, native, len(data), version, chosen)


def _history(run: dict[str, Any], taken: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log of a run; where a file has none, what its steps tell of it."""
    history = run.get("history")
    if isinstance(history, list) and history:
        return [row for row in history if isinstance(row, dict)]
    out: list[dict[str, Any]] = []
    if taken:
        first = taken[0].get("query")
        out = [row for row in first if isinstance(row, dict)] if isinstance(first, list) else []
    for step in taken:
        said = (
            words.word(step.get("response")) or f"{words.word(step.get('thought'))}\n{words.word(step.get('action'))}".strip()
        )
        out.append({"role": "assistant", "content": said, "message_type": "action"})
        out.append({"role": "user", "content": words.word(step.get("observation")), "message_type": "observation"})
    return out


def wire_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the history as a chat message."""
    wire = {k: v for k, v in row.items() if k not in _OWN and v is not None}
    wire.setdefault("content", row.get("content"))
    ids = row.get("tool_call_ids")
    if isinstance(ids, list) and ids and row.get("role") == "tool":
        wire["tool_call_id"] = ids[0]
    return wire


def _processor(value: Any, run: dict[str, Any]) -> int | None:
    """How many observations stay whole; 0 where all do, None where the file does not say."""
    raw = run.get("replay_config") or (value.get("replay_config") if isinstance(value, dict) else None)
    config = words.arguments(raw) if raw else None
    agent = config.get("agent") if isinstance(config, dict) else None
    if not isinstance(agent, dict):
        return None
    found = agent.get("history_processors")
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict) and one.get("type") == "last_n_observations":
            return words.count(one.get("n")) or 5
    return 0


def _is_observation(row: dict[str, Any]) -> bool:
    if row.get("is_demo"):
        return False
    kind = row.get("message_type")
    return kind == "observation" if kind else row.get("role") == "user"


def elided(rows: list[dict[str, Any]], whole: int, words_of_version: str) -> list[str | None]:
    """For each row the text that stands for it once `whole` newer observations follow, None where it is sent as it is.

    The first observation is the task and always stays.
    """
    places = [i for i, row in enumerate(rows) if _is_observation(row)]
    old = set(places[1 : max(len(places) - whole, 1)]) if whole else set()
    out: list[str | None] = []
    for i, row in enumerate(rows):
        count = len(words.text_of(row.get("content")).splitlines())
        out.append(words_of_version.format(count) if i in old else None)
    return out


def _calls(
    items: list[Item],
    rows: list[dict[str, Any]],
    taken: list[dict[str, Any]],
    answers: list[int],
    whole: int | None,
    build: Builder,
) -> Calls:
    lines = {e.id: line for e, line in zip(build.events, build.lines, strict=True)}
    modern = any(row.get("message_type") for row in rows)
    count = max(len(taken), len(answers))

    def recorded(step: int | None) -> list[dict[str, Any]] | None:
        """The messages that the file keeps for a call, if it does."""
        if step is not None and step <= len(taken) and isinstance(taken[step - 1].get("query"), list):
            return [m for m in taken[step - 1]["query"] if isinstance(m, dict)]
        before = len(taken) if step is None else step - 1
        if 1 <= before <= len(taken) and isinstance(taken[before - 1].get("messages"), list):
            return [m for m in taken[before - 1]["messages"] if isinstance(m, dict)]
        return None

    def view(step: int | None) -> View:
        kept = recorded(step)
        if kept is not None:
            return _view([_sent(m, i, rows, items) for i, m in enumerate(kept)], ())
        end = len(items) if step is None else answers[step - 1] if step <= len(answers) else len(items)
        text = "Old environment output: ({} lines omitted)" if modern else "Old output omitted ({} lines)"
        assumed = whole is None and not modern
        cuts = elided(rows[:end], 5 if assumed else whole or 0, text)
        return _view(
            [item if cut is None else _cut(item, cut) for item, cut in zip(items[:end], cuts, strict=True)],
            (ASSUMED,) if assumed and any(cuts) else (),
        )

    def record(n: int) -> str:
        return items[answers[n - 1]].id if n <= len(answers) else f"step-{n}"

    steps = tuple(
        Step(n, "main", None, "recorded" if recorded(n) is not None else "partial" if view(n).unknown else "rebuilt", record(n),
             lines.get(record(n)))
        for n in range(1, count + 1)
    )  # fmt: skip
    ids = [item.id for item in items if item.role != "system"]

    def on_branch(leaf: str | None) -> list[str]:
        return ids if leaf not in ids else ids[: ids.index(leaf) + 1]

    last = ids[-1] if ids else None
    return Calls(steps, view, Leaf(last, lines.get(last or ""), "last-in-file"), on_branch, ids)


def _view(items: list[Item], unknown: tuple[str, ...]) -> View:
    head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    system = [block for item in items[:head] for block in item.blocks] if head else None
    wire = [item.wire for item in items if item.wire is not None]
    return View(batched(items[head:]), system, None, unknown, {}, {"messages": wire})


def _cut(item: Item, text: str) -> Item:
    wire = {**(item.wire or {}), "content": text}
    _, blocks = words.chat(wire)
    reason = "an old observation, cut by the history processor"
    return msgspec.structs.replace(item, blocks=blocks, wire=wire, state="placeholder", reason=reason, original=item.id)


def _sent(message: dict[str, Any], i: int, rows: list[dict[str, Any]], items: list[Item]) -> Item:
    """A kept message with the row of the history that it comes from: rows keep their places."""
    wire = wire_of(message)
    role, blocks = words.chat(wire)
    if i < len(items) and items[i].role == role:
        item = items[i]
        if words.text_of(rows[i].get("content")) == words.text_of(message.get("content")):
            return msgspec.structs.replace(item, blocks=blocks, wire=wire)
        return msgspec.structs.replace(_cut(item, ""), blocks=blocks, wire=wire)
    return Item(f"sent-{i + 1}", role, blocks, wire, "", "reminder", "in the request but not in the history", None, ())
