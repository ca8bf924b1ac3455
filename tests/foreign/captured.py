"""Rebuilt requests against captured ones: how equal they are, in the provider's words and in neutral ones.

The comparison is written without the package's own converters, so that it can disagree with them.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nova_nb.history.events import MessageAppended
from nova_nb.session import Session
from tests.conftest import SHARED

KINDS = {"sub": "subagent"}


def capture(folder: Path) -> list[dict[str, Any]]:
    """The captured requests of a scenario, in the order they arrived; `process` counts the agent's processes."""
    out, process, compacted = [], 0, False
    seen = json.loads((folder / "visible.json").read_text("utf-8")) if (folder / "visible.json").exists() else {}
    for line in (folder / "requests.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if "event" in row:
            process += "process" in row["event"] and "kill" not in row["event"]
            continue
        out.append({"kind": KINDS.get(row["kind"], row["kind"]), "body": row["body"], "seq": row["seq"], "process": process,
                    "after_compaction": compacted, "visible": seen.get(str(row["seq"]), {})})  # fmt: skip
        compacted = compacted or row["kind"] in ("compact", "rcompact")
    return out


def wire(body: dict[str, Any]) -> list[Any]:
    """The messages or items of a body, without what does not count: cache marks, empty fields, key order in arguments."""
    rows = next((body[key] for key in ("messages", "input", "contents") if key in body), None)
    return [_plain(row) for row in ([{"role": "user", "content": rows}] if isinstance(rows, str) else rows or [])]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        out = {k: _plain(v) for k, v in value.items() if k != "cache_control" and v is not None}
        if isinstance(out.get("arguments"), str):
            with contextlib.suppress(ValueError):
                out["arguments"] = json.loads(out["arguments"])
        return out
    return [_plain(part) for part in value] if isinstance(value, list) else value


def atoms(rows: list[Any]) -> list[tuple[Any, ...]]:
    """What was said, part by part, whatever the provider: (role, text), ("call", id, name, input), ("result", id, text)."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        kind, role = row.get("type"), {"developer": "system"}.get(row.get("role"), row.get("role"))
        if kind in ("function_call", "custom_tool_call"):
            input = {"input": row["input"]} if kind == "custom_tool_call" else row.get("arguments")
            out.append(("call", row["call_id"], row["name"], _key(input)))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            out.append(("result", row["call_id"], _text(row.get("output"))))
        elif kind == "reasoning":
            out.append(("thinking", "".join(p["text"] for p in row.get("summary") or [])))
        elif role == "tool":
            out.append(("result", row["tool_call_id"], _text(row.get("content"))))
        else:
            if row.get("reasoning_content"):
                out.append(("thinking", row["reasoning_content"]))
            content = row.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
            for part in parts if isinstance(parts, list) else []:
                if part.get("type") == "tool_use":
                    out.append(("call", part["id"], part["name"], _key(part["input"])))
                elif part.get("type") == "tool_result":
                    out.append(("result", part["tool_use_id"], _text(part["content"])))
                elif part.get("type") == "thinking":
                    out.append(("thinking", part["thinking"]))
                else:
                    out.append((role, part.get("text", part.get("type"))))
            for call in row.get("tool_calls") or []:
                out.append(("call", call["id"], call["function"]["name"], _key(call["function"]["arguments"])))
    return out


def _key(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    return json.dumps(arguments, sort_keys=True)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return "" if content is None else str(content)


def without_system(rows: list[Any]) -> list[Any]:
    return [row for row in rows if row.get("role") not in ("system", "developer")]


PLANTED = {
    "convention_verbatim": "all timestamps are stored in UTC through clock.utc_now(); never CURRENT_TIMESTAMP",
    "test_failure_output": "FAILED (failures=1)",
    "clock_source": "def utc_now",
    "store_schema": "CREATE TABLE IF NOT EXISTS receipt",
    "duplicate_till_q7": "Q7",
    "plan_a": "Plan A: DEFAULT CURRENT_TIMESTAMP",
}
"""The texts that `visible.json` speaks of; each marks its presence in every captured request."""


def texts(value: Any) -> str:
    """All strings of a JSON value, one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(texts(v) for v in value.values())
    return "\n".join(texts(v) for v in value) if isinstance(value, list) else ""


@dataclass
class Tally:
    """How the requests of an agent compare, by group: "live", "after compaction", "after resume"."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, group: str, verdict: str, where: str) -> None:
        self.counts.setdefault(group, Counter())[verdict] += 1
        if verdict not in ("exact", "baseline-exact", "baseline-other"):
            self.wrong.append(f"{verdict}: {where}")

    def total(self, verdict: str) -> int:
        return sum(counter[verdict] for counter in self.counts.values())

    def table(self, agent: str) -> str:
        lines = [f"{agent}:"]
        for group, counter in self.counts.items():
            got = ", ".join(f"{v} {k}" for k, v in sorted(counter.items()))
            lines.append(f"  {group}: {got}")
        return "\n".join(lines + [f"  {w}" for w in self.wrong])


def compare(session: Session, step: int, row: dict[str, Any]) -> str:
    """ "exact", "same conversation", "partial" or "differing"."""
    request = session.request(step=step)
    rebuilt, true = wire(request.body), wire(row["body"])
    if request.system is None:
        rebuilt, true = without_system(rebuilt), without_system(true)
    said = atoms(without_system(true))
    neutral = atoms(without_system(request.messages))
    if rebuilt == true and neutral == said:
        return "exact"
    if [a for a in neutral if a[0] != "thinking"] == [a for a in said if a[0] != "thinking"]:
        return "same conversation"
    return "partial" if request.basis == "partial" and set(neutral) < set(said) else "differing"


def baseline(session: Session, step: int, row: dict[str, Any]) -> bool:
    """Whether every record that stands before the answer in the file, in file order, is the request."""
    answer = session.steps[step - 1].record
    rows: list[Any] = []
    for event in session.log.events:
        if event.id == answer:
            break
        if isinstance(event, MessageAppended) and event.role != "system":
            rows.append({"role": event.role, "content": event.content})
    return atoms(rows) == atoms(without_system(wire(row["body"])))


def check(
    tally: Tally, session: Session, rows: list[dict[str, Any]], where: str, pairs: list[tuple[int, int]] | None = None
) -> None:
    """Adds the comparison of every captured main request of a session to the tally.

    `pairs` are (index of the captured request, step); the default takes them one to one by kind.
    """
    if pairs is None:
        mine = [s.number for s in session.steps if s.kind == "main"]
        pairs = list(zip([i for i, r in enumerate(rows) if r["kind"] == "main"], mine, strict=True))
    for index, step in pairs:
        row = rows[index]
        group = "after compaction" if row["after_compaction"] else "after resume" if row["process"] > 1 else "live"
        tally.add(group, compare(session, step, row), f"{where} request {row['seq']} step {step}")
        held = texts(session.request(step=step).messages)
        shown = {key: text in held for key, text in PLANTED.items() if key in row["visible"]}
        assert shown == {key: row["visible"][key] for key in shown}, f"{where} request {row['seq']}: planted texts"
        tally.add(group, "baseline-exact" if baseline(session, step, row) else "baseline-other", where)


def scenarios(agent: str) -> list[Path]:
    folder = SHARED / "authentic" / agent
    if not folder.exists():
        pytest.skip(f"../shared/authentic/{agent} is not on this machine")
    return sorted(p for p in folder.iterdir() if p.is_dir())
