"""A loop of thirty lines over real files: enough to drive a model without the agent room."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from nova_nb.models.base import Model, Reply
from nova_nb.projection.spill import placeholder

NAMES = ("read_file", "write_file", "patch_file", "list_files", "search", "run_command", "git_status", "git_diff")
TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in NAMES]


def run(root: Path, name: str, given: dict[str, Any]) -> tuple[str, bool]:
    """One tool call on the folder `root`: its text, and whether it failed."""
    if name == "list_files":
        return "\n".join(
            sorted(str(p.relative_to(root)) for p in root.rglob("*.*") if p.is_file() and p.suffix != ".pyc")
        ), False
    if name == "search":
        hits = []
        for path in sorted(p for p in root.rglob(given.get("glob") or "*") if p.is_file() and p.suffix != ".pyc"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(given["pattern"], line):
                    hits.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
        return "\n".join(hits) or "no matches", False
    if name == "run_command":
        command = re.sub(r"^python\b", sys.executable, given["command"])
        done = subprocess.run(
            command, shell=True, cwd=root, capture_output=True, text=True, env={"PYTHONDONTWRITEBYTECODE": "1"}
        )
        return done.stdout + done.stderr, done.returncode != 0
    path = root / given.get("path", "")
    if name == "read_file":
        if not path.is_file():
            return "there is no such file", True
        lines = path.read_text().splitlines(keepends=True)
        first, limit = given.get("offset", 1), given.get("limit", 2_000)
        end = min(first - 1 + limit, len(lines))
        more = f"; read on with offset={end + 1}" if end < len(lines) else ""
        note = f"[lines {first}-{end} of {len(lines)}{more}]" if first > 1 or more else ""
        return "".join(lines[first - 1 : end]) + note, False
    if name == "patch_file":
        text = path.read_text()
        if text.count(given["old"]) != 1:
            return "the passage is not there exactly once", True
        path.write_text(text.replace(given["old"], given["new"]))
        return "patched", False
    return f"no tool {name}", True


async def drive(
    model: Model, root: Path, messages: list[dict[str, Any]], system: str = "You are a coding agent.", tools: Any = TOOLS,
    most: int = 30, spill: int | None = None,
) -> list[Reply]:  # fmt: skip
    """Answer until a reply calls no tool. `messages` grows; a result over `spill` characters becomes a file and a preview."""
    replies = []
    for _ in range(most):
        reply = await model.send({"system": system, "tools": tools, "messages": messages, "max_tokens": 4_000})
        replies.append(reply)
        messages.append({"role": "assistant", "content": reply.content})
        results = []
        for block in reply.content:
            if block["type"] != "tool_use":
                continue
            text, failed = run(root, block["name"], block["input"])
            if spill and len(text) > spill and block["name"] != "read_file":
                stored = root / "tool-results" / f"{block['id']}.txt"
                stored.parent.mkdir(exist_ok=True)
                stored.write_text(text)
                text = placeholder(text, f"tool-results/{block['id']}.txt", 400)
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": text, "is_error": failed})
        if not results:
            return replies
        messages.append({"role": "user", "content": results})
    raise AssertionError(f"no end after {most} steps: {[b for r in replies[-2:] for b in r.content]}")


def said(text: str) -> list[dict[str, Any]]:
    """A conversation that a person opens."""
    return [{"role": "user", "content": [{"type": "text", "text": text}]}]
