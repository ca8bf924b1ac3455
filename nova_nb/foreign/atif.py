"""Reading rules of ATIF trajectories (Harbor's Agent Trajectory Interchange Format, 1.0 to 1.7).

Knows: an agent step is an answer and the results of its calls; prompt counts include cached tokens;
copied steps of a continuation are context, not calls. A system step that refers to trajectories of
a summarisation is a compaction: after it the model sees the task, the handoff (the questions
trajectory: its last prompt and answer) and what follows. Referred trajectories are read when they
are embedded or lie in the same folder; no path leaves it. Other system steps in the middle are
remarks of the writer; whether they were sent the format does not say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..history.events import Block, CompactionBoundaryCreated, ForeignRow, Usage
from ..history.log import Log
from . import words
from .base import Leaf, SessionInfo, Step
from .calls import Builder, Calls, Item, View, batched, one_session
from .calls import body as body
from .calls import conversation as conversation
from .calls import leaf as leaf
from .calls import project as project
from .calls import reachable as reachable
from .calls import shown as shown
from .calls import steps as steps
from .documents import load, peek, read_bytes, row_lines

name = "atif"

REFERRED_LIMIT = 64 << 20
"""Bytes of a referred trajectory that is read at most."""
REMARKS = "system steps in the middle are remarks of the writer; whether the model saw them is not recorded"


def sniff(path: Path, head: bytes) -> bool:
    value = peek(head)
    if not isinstance(value, dict):
        return False
    steps = value.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    stepped = isinstance(first, dict) and "step_id" in first and "source" in first
    return stepped or (
        isinstance(value.get("schema_version"), str) and value["schema_version"].startswith("ATIF") and "agent" in value
    )


def list_sessions(path: Path) -> list[SessionInfo]:
    value, _ = load(read_bytes(path))
    value = value if isinstance(value, dict) else {}
    agent = value["agent"] if isinstance(value.get("agent"), dict) else {}
    extra = agent["extra"] if isinstance(agent.get("extra"), dict) else {}
    parent = words.word(extra.get("parent_session_id")) or None
    return one_session(path, name, words.word(value.get("session_id")), words.word(agent.get("name")), parent)


def read(path: Path, session_id: str | None = None) -> Log:
    data = read_bytes(path)
    value, damage = load(data)
    document = value if isinstance(value, dict) else {}
    reader = Reader(path, document, Builder(damage=damage), row_lines(data, "steps"))
    version = words.word(document.get("schema_version")) or None
    return reader.build.log(path, name, reader.calls(), len(data), version, words.word(document.get("session_id")))


def usage_of(raw: Any) -> Usage | None:
    """A step's counts; the prompt's include what was cached.

    >>> usage_of({"prompt_tokens": 10, "cached_tokens": 8, "completion_tokens": 1})
    Usage(input=2, output=1, cache_read=8, cache_write=0)
    """
    if not isinstance(raw, dict):
        return None
    given, output, cached = (words.count(raw.get(k)) for k in ("prompt_tokens", "completion_tokens", "cached_tokens"))
    return Usage(max(given - cached, 0), output, cached) if given or output else None


class Reader:
    """Folds steps into events and keeps, for every call, the items that its request held."""

    def __init__(self, path: Path, document: dict[str, Any], build: Builder, lines: list[int]) -> None:
        self.path, self.document, self.build = path, document, build
        self.open: list[str] = []
        """referred trajectories being read: one that refers to itself is not followed"""
        self.found: list[tuple[Step, list[Item], tuple[str, ...]]] = []
        self.left: dict[str, tuple[str, str]] = {}
        self.branch: list[str] = []
        """the run's own conversation records, those before a summarisation too"""
        self.remarks = False
        agent = document["agent"] if isinstance(document.get("agent"), dict) else {}
        self.model = words.word(agent.get("model_name")) or None
        tools = agent.get("tool_definitions")
        self.tools = [t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else None
        self.unknown: tuple[str, ...] = ()
        self.items = self._steps(document.get("steps"), lines, "", "main")

    def _steps(self, steps: Any, lines: list[int], prefix: str, kind: str) -> list[Item]:
        items: list[Item] = []
        for i, step in enumerate(steps if isinstance(steps, list) else []):
            line = lines[i] if i < len(lines) else 1
            if not isinstance(step, dict):
                continue
            id, at = f"{prefix}{step.get('step_id', i + 1)}", words.word(step.get("timestamp"))
            source = step.get("source")
            if source == "agent":
                items += self._agent(step, items, id, line, at, kind, prefix)
            elif source == "system" and items and items[-1].role != "system":
                items = self._remark(step, items, id, line, at, prefix)
            else:
                role = "system" if source == "system" else "user"
                items.append(self._message(id, line, role, words.blocks_of(step.get("message")), at, step, prefix))
                if role == "system" and not prefix:
                    self.build.prompt(line, items[-1].blocks, self.tools)
        return items

    def _message(
        self, id: str, line: int, role: str, blocks: list[Block], at: str, step: dict[str, Any], prefix: str, **more: Any
    ) -> Item:
        meta = {"copied": True} if step.get("is_copied_context") is True else {}
        meta |= {"sidechain": True} if prefix else {}
        event = self.build.message(id, line, role, blocks, at=at, meta=meta, **more)
        if not prefix and role != "system":
            self.branch.append(event.id)
        return Item(event.id, role, blocks)

    def _agent(
        self, step: dict[str, Any], before: list[Item], id: str, line: int, at: str, kind: str, prefix: str
    ) -> list[Item]:
        blocks: list[Block] = []
        if isinstance(step.get("reasoning_content"), str) and step["reasoning_content"]:
            blocks.append({"type": "thinking", "thinking": step["reasoning_content"]})
        blocks += words.blocks_of(step.get("message"))
        calls = step.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                blocks.append(words.tool_use(call.get("tool_call_id"), call.get("function_name"), call.get("arguments")))
        usage, model = usage_of(step.get("metrics")), words.word(step.get("model_name")) or self.model
        answer = self._message(id, line, "assistant", blocks, at, step, prefix, group=id, model=model, usage=usage)
        if step.get("is_copied_context") is not True and step.get("llm_call_count") != 0:
            number = len(self.found) + 1
            basis = "partial" if self.unknown else "rebuilt"
            self.found.append((Step(number, kind, usage, basis, answer.id, line, at, model), list(before), self.unknown))
        out = [answer]
        seen = step.get("observation")
        results = seen.get("results") if isinstance(seen, dict) else None
        given = [r for r in results if isinstance(r, dict)] if isinstance(results, list) else []
        open_calls = [b["id"] for b in blocks if b.get("type") == "tool_use"]
        if open_calls and given and not any(r.get("source_call_id") for r in given):
            told = _joint(open_calls, given)
        else:
            told = [b for r in given for b in _result(r)]
        for result in given:
            self._refer(result, line, id, "subagent")
        if told:
            out.append(self._message(f"{id}-results", line, "user", told, at, step, prefix))
        return out

    def _remark(self, step: dict[str, Any], items: list[Item], id: str, line: int, at: str, prefix: str) -> list[Item]:
        """A system step in the middle: a compaction when it refers to trajectories, else a remark."""
        seen = step.get("observation")
        results = seen.get("results") if isinstance(seen, dict) else None
        refs = (
            [r for r in results if isinstance(r, dict) and r.get("subagent_trajectory_ref")]
            if isinstance(results, list)
            else []
        )
        own = self.build.unique(id, line)
        if not refs:
            self.build.add(ForeignRow(id=own, at=at, kind="remark", parent=self.build.last, data=step), line)
            self.left[own] = ("projection", "a remark of the writer; not known to have been sent")
            if REMARKS not in self.unknown:
                self.unknown += (REMARKS,)
            return items
        last = self.build.last
        sides = [side for result in refs for side in self._refer(result, line, own, "compact")]
        questions = next((side for label, side in sides if label.endswith("questions")), None)
        head = next((i for i, item in enumerate(items) if item.role == "user"), 0) + 1
        self.left.update({i.id: ("boundary", f"summarised at step {id}") for i in items[head:]})
        handoff = [] if questions is None else questions[-2:]
        if questions is None:
            self.unknown += ("the handoff lies in a trajectory that is neither embedded nor in this folder",)
        boundary = CompactionBoundaryCreated(
            id=own, at=at, logical_parent=last, trigger="auto", kept=[i.id for i in items[:head]],
            content=[b for i in handoff for b in i.blocks], meta={"message": step.get("message")},
        )  # fmt: skip
        self.build.add(boundary, line)
        self.build.last = own
        told = [Item(i.id, i.role, i.blocks, None, "", "summary", "handoff", None, (own, i.id)) for i in handoff]
        return [*items[:head], *told]

    def _refer(self, result: dict[str, Any], line: int, own: str, kind: str) -> list[tuple[str, list[Item]]]:
        """The referred trajectories that can be read, each with its name."""
        refs = result.get("subagent_trajectory_ref")
        out: list[tuple[str, list[Item]]] = []
        for ref in refs if isinstance(refs, list) else [refs]:
            if not isinstance(ref, dict):
                continue
            label = words.word(ref.get("trajectory_path") or ref.get("session_id") or ref.get("trajectory_id")).removesuffix(
                ".json"
            )
            document = self._referred(ref) if label not in self.open else None
            if document is None:
                self.build.add(
                    ForeignRow(id=self.build.unique(f"{own}-ref", line), kind="reference", parent=own, data=ref), line
                )
                continue
            self.open.append(label)
            keep = self.build.last
            self.build.last = None
            out.append((label, self._steps(document.get("steps"), [], f"{label.rsplit('.', 1)[-1]}/", kind)))
            self.build.last = keep
            self.open.pop()
        return out

    def _referred(self, ref: dict[str, Any]) -> dict[str, Any] | None:
        embedded = self.document.get("subagent_trajectories")
        for one in embedded if isinstance(embedded, list) else []:
            if isinstance(one, dict) and any(ref.get(k) and ref.get(k) == one.get(k) for k in ("trajectory_id", "session_id")):
                return one
        named = words.word(ref.get("trajectory_path"))
        if not re.fullmatch(r"[\w][\w.\- ]*\.json", named):  # a plain name: nothing leaves the folder
            return None
        front = re.sub(r"trajectory(\.[\w\-]+)*\.json$", "", self.path.name)  # a copy often has its task's name in front
        for file in (self.path.with_name(named), self.path.with_name(front + named)):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= REFERRED_LIMIT:
                value, _ = load(read_bytes(file))
                same = isinstance(value, dict) and value.get("session_id") in (None, ref.get("session_id"))
                return value if same else None
        return None

    def calls(self) -> Calls:
        if words.word(self.document.get("continued_trajectory_ref")):
            self.unknown += (f"the run goes on in {self.document['continued_trajectory_ref']}",)

        def view(step: int | None) -> View:
            items, unknown = (self.items, self.unknown) if step is None else self.found[step - 1][1:]
            return _view(items, self.tools, unknown, self.left if step is None else {})

        said = self.branch

        def on_branch(leaf: str | None) -> list[str]:
            return said if leaf not in said else said[: said.index(leaf) + 1]

        last = self.build.last
        line = next((at for e, at in zip(self.build.events, self.build.lines, strict=True) if e.id == last), None)
        return Calls(tuple(step for step, _, _ in self.found), view, Leaf(last, line, "last-step"), on_branch, None)


def _result(result: dict[str, Any]) -> list[Block]:
    content = result.get("content")
    if result.get("source_call_id"):
        return [words.tool_result(result["source_call_id"], content if content is not None else "")]
    return words.blocks_of(content)


def _joint(calls: list[str], results: list[dict[str, Any]]) -> list[Block]:
    """Results that name no call: a terminal's output after several commands stands with the last of them."""
    content = [b for r in results for b in words.blocks_of(r.get("content"))]
    return [words.tool_result(call, "") for call in calls[:-1]] + [words.tool_result(calls[-1], content)]


def _view(
    items: list[Item], tools: list[dict[str, Any]] | None, unknown: tuple[str, ...], left: dict[str, tuple[str, str]]
) -> View:
    head = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    system = [block for item in items[:head] for block in item.blocks] if head else None
    return View(batched(items[head:]), system, tools, unknown, left)
