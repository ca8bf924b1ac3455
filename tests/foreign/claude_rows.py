"""Rows of invented Claude Code transcripts, written the way the agent writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "11111111-2222-4333-8444-555555555555"


class Rows:
    """Collects rows; each hangs below the last one unless `parent` says otherwise."""

    def __init__(self, version: str = "2.1.140", session: str = SESSION) -> None:
        self.version = version
        self.session = session
        self.rows: list[dict[str, Any]] = []
        self.last: str | None = None

    def add(self, uuid: str, type: str, parent: str | object | None = ..., **fields: Any) -> str:
        up = self.last if parent is ... else parent
        at = f"2026-05-04T09:{len(self.rows) // 60:02}:{len(self.rows) % 60:02}.000Z"
        self.rows.append({"parentUuid": up, "isSidechain": False, "type": type, "uuid": uuid, "timestamp": at,
                          "sessionId": self.session, "version": self.version, "cwd": "/w"} | fields)  # fmt: skip
        self.last = uuid
        return uuid

    def bare(self, type: str, **fields: Any) -> None:
        self.rows.append({"type": type, "sessionId": self.session, **fields})

    def user(self, uuid: str, content: Any, parent: Any = ..., **fields: Any) -> str:
        return self.add(uuid, "user", parent, message={"role": "user", "content": content}, **fields)

    def result(self, uuid: str, call: str, text: Any, parent: Any = ..., **fields: Any) -> str:
        return self.user(uuid, [{"type": "tool_result", "tool_use_id": call, "content": text}], parent, **fields)

    def answer(self, uuid: str, group: str, *blocks: Any, parent: Any = ..., **fields: Any) -> str:
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        usage = {
            "input_tokens": 3,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 100,
            "output_tokens": len(self.rows),
        }
        message = {"role": "assistant", "id": group, "model": "m-1", "content": content, "usage": usage}
        return self.add(uuid, "assistant", parent, message=message | fields.pop("message", {}), **fields)

    def boundary(self, uuid: str, logical: str | None, **about: Any) -> str:
        return self.add(uuid, "system", None, subtype="compact_boundary", logicalParentUuid=logical,
                        compactMetadata={"trigger": "auto", "preTokens": 900, **about})  # fmt: skip

    def summary(self, uuid: str, text: str = "In short.") -> str:
        return self.user(uuid, text, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), "utf-8")
        return path


def call(id: str, name: str = "Read", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}
