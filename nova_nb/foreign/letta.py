"""Reading rules of Letta agent files (`.af`).

Knows: each agent of a file is a session; `messages` is its whole recall memory, and
`in_context_message_ids` names, in order, what the model sees (older files: indices). The first of
these is the system message with the memory blocks compiled in as they are now: what it was at an
earlier call is not in the file, so earlier requests are partial. Files may be encoded twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import SessionNotFound
from ..history.events import Block, ForeignRow
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
from .documents import load, peek, read_bytes

name = "letta"

RECOMPILED = "the system message is compiled anew when memory changes; the file holds only its present form"
_ROLES = {"summary": "user", "developer": "system", "approval": "assistant"}


def sniff(path: Path, head: bytes) -> bool:
    value = peek(head)
    if isinstance(value, str):
        value = peek(value.encode("utf-8", "replace"))
    if not isinstance(value, dict):
        return False
    agents = value.get("agents")
    first = agents[0] if isinstance(agents, list) and agents else None
    if isinstance(first, dict):
        return bool({"agent_type", "llm_config", "in_context_message_ids", "block_ids"} & set(first))
    return "agent_type" in value and ("core_memory" in value or "llm_config" in value)


def _agents(data: bytes) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    value, damage = load(data)
    if isinstance(value, str):
        value, more = load(value.encode("utf-8", "replace"))
        damage += more
    if not isinstance(value, dict):
        return {}, damage
    agents = value["agents"] if isinstance(value.get("agents"), list) else [value]
    return {words.word(a.get("id")) or f"agent-{n}": a for n, a in enumerate(agents) if isinstance(a, dict)}, damage


def list_sessions(path: Path) -> list[SessionInfo]:
    stat = path.stat()
    agents, _ = _agents(read_bytes(path))
    return [
        SessionInfo(str(path), name, id, words.word(a.get("name")), stat.st_mtime, stat.st_size) for id, a in agents.items()
    ]


def read(path: Path, session_id: str | None = None) -> Log:
    """One agent of the file; without an id the first, which is the root of a group."""
    data = read_bytes(path)
    agents, damage = _agents(data)
    if session_id is not None and session_id not in agents:
        raise SessionNotFound(f"{path}: no agent {session_id} here; it holds {', '.join(list(agents)[:5]) or 'none'}")
    chosen = session_id if session_id is not None else next(iter(agents), "")
    agent = agents.get(chosen, {})
    build = Builder(damage=damage)
    config = agent["llm_config"] if isinstance(agent.get("llm_config"), dict) else {}
    model = words.word(config.get("model")) or None
    items: list[Item] = []
    by_id: dict[str, Item] = {}
    place: dict[int, Item] = {}
    rows = agent["messages"] if isinstance(agent.get("messages"), list) else []
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("role"), str):
            build.add(ForeignRow(id=build.unique(f"m{i + 1}", 1), kind="unreadable", parent=build.last, data=row), 1)
            continue
        role, blocks = neutral(row)
        own = words.word(row.get("id")) or f"m{i + 1}"
        at = words.word(row.get("created_at"))
        group = words.word(row.get("step_id")) or (own if role == "assistant" else None)
        event = build.message(own, 1, role, blocks, at=at, group=group, model=model if role == "assistant" else None)
        items.append(Item(event.id, role, blocks))
        by_id.setdefault(own, items[-1])
        place[i] = items[-1]
    ids, indices = agent.get("in_context_message_ids"), agent.get("in_context_message_indices")
    active = items
    if isinstance(ids, list):
        active = [by_id[i] for i in ids if isinstance(i, str) and i in by_id]
    elif isinstance(indices, list):
        active = [place[i] for i in indices if isinstance(i, int) and i in place]
    if active and active[0].role == "system":
        build.prompt(1, active[0].blocks)
    return build.log(path, name, _calls(items, active, build, model), len(data), None, chosen)


def neutral(row: dict[str, Any]) -> tuple[str, list[Block]]:
    """Role and blocks of one of Letta's messages."""
    role = _ROLES.get(row["role"], row["role"])
    if role == "tool":
        returns = (
            [r for r in row.get("tool_returns") or [] if isinstance(r, dict)]
            if isinstance(row.get("tool_returns"), list)
            else []
        )
        if len(returns) > 1:
            return "user", [
                words.tool_result(r.get("tool_call_id"), r.get("func_response") or "", r.get("status") == "error")
                for r in returns
            ]
        failed = bool(returns) and returns[0].get("status") == "error"
        return "user", [words.tool_result(row.get("tool_call_id"), words.text_of(row.get("content")), failed)]
    content = row.get("content", row.get("text"))
    parts: list[Any] = []
    for part in content if isinstance(content, list) else [content] if content else []:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning":
            thought = {"type": "thinking", "thinking": words.word(part.get("reasoning"))}
            parts.append({**thought, "signature": part["signature"]} if isinstance(part.get("signature"), str) else thought)
        elif kind not in ("omitted_reasoning", "tool_call", "tool_return"):
            parts.append(part)
    return words.chat({"role": role, "content": parts, "tool_calls": row.get("tool_calls")})


def _calls(items: list[Item], active: list[Item], build: Builder, model: str | None) -> Calls:
    times = {e.id: e.at for e in build.events}
    answers = [i for i, item in enumerate(items) if item.role == "assistant"]
    steps = tuple(
        Step(n, "main", None, "partial", items[i].id, 1, times.get(items[i].id, ""), model) for n, i in enumerate(answers, 1)
    )
    here = {item.id for item in active}

    def view(step: int | None) -> View:
        if step is None:
            left = {i.id: ("boundary", "not in the agent's context: in recall memory only") for i in items if i.id not in here}
            return _view(active, (), left)
        answer = items[answers[step - 1]]
        if answer.id in here:
            return _view(active[: [i.id for i in active].index(answer.id)], (RECOMPILED,), {})
        return _view(items[: answers[step - 1]], (RECOMPILED, "what was in the context then is not in the file"), {})

    said = [i.id for i in items if i.role != "system"]

    def on_branch(leaf: str | None) -> list[str]:
        return said if leaf not in said else said[: said.index(leaf) + 1]

    last = next((i.id for i in reversed(active) if i.role != "system"), None)
    return Calls(steps, view, Leaf(last, 1 if last else None, "in-context-ids"), on_branch, said)


def _view(items: list[Item], unknown: tuple[str, ...], left: dict[str, tuple[str, str]]) -> View:
    head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    system = [block for item in items[:head] for block in item.blocks] if head else None
    return View(batched(items[head:]), system, None, unknown, left)
