"""Fresh agent sessions of any length, healthy or with one fault of a kind, for the property tests.

Knows: how Claude Code, pi and Codex lay out a session, and how each fault would have come about. The
usage figures follow from what each request could carry, at one rate of characters a token above one
fixed part, as they do in a real log. Everything in them is invented.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

Row = dict[str, Any]

TASKS = [
    "The basket forgets its coupon.",
    "Export the invoices.",
    "Login is slow.",
    "Rename the tax table.",
    "Parcels get lost.",
]
RULE = "Convention: all timestamps are stored in UTC, always through shop.clock.utc_now()."
WORDS = ["order", "cart", "parcel", "coupon", "shelf", "invoice", "tariff", "basket", "stock", "refund"]
TOOLS = ["Read", "Bash", "Grep", "Glob"]


@dataclass
class Claude:
    """Writes a Claude Code transcript turn by turn, counting what each request carries."""

    random: Random
    rate: float = 3.0
    fixed: int = 18_000
    version: str = "2.1.150"
    rows: list[Row] = field(default_factory=list)
    parent: str | None = None
    clock: float = 0.0
    sent: int = 0
    """characters in the next request since the last boundary"""
    cached: int = 0
    n: int = 0

    def id(self, kind: str) -> str:
        self.n += 1
        return f"{kind}{self.n:04d}-{self.random.getrandbits(32):08x}"

    def row(self, type: str, **more: Any) -> Row:
        self.clock += self.random.uniform(0.5, 3)
        row = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "type": type,
            "uuid": self.id(type[0]),
            "timestamp": self.stamp(),
            "sessionId": "5e551011-0000-4000-8000-000000000001",
            "version": self.version,
            "cwd": "/workspace/shop",
            "userType": "external",
            **more,
        }
        self.rows.append(row)
        if "parentUuid" not in more or more["parentUuid"] is not None or type != "system":
            self.parent = row["uuid"]
        return row

    def stamp(self) -> str:
        t = int(self.clock * 1000)
        day, t = divmod(t, 86_400_000)
        hour, t = divmod(t, 3_600_000)
        minute, t = divmod(t, 60_000)
        return f"2026-05-{4 + day:02d}T{hour:02d}:{minute:02d}:{t // 1000:02d}.{t % 1000:03d}Z"

    def text(self, chars: int) -> str:
        out = ""
        while len(out) < chars:
            out += f"{self.random.choice(WORDS)} {self.random.randrange(1000)}; "
        return out[:chars]

    def say(self, text: str, **more: Any) -> Row:
        self.clock += 25
        self.sent += len(text)
        return self.row("user", message={"role": "user", "content": text}, permissionMode="default", **more)

    def usage(self, carried: int | None = None, read: int | None = None) -> Row:
        total = self.fixed + int((self.sent if carried is None else carried) / self.rate)
        cached = min(self.cached if read is None else read, total)
        self.cached = total
        return {
            "input_tokens": 3,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": max(total - cached - 3, 0),
            "output_tokens": 30,
        }

    def answer(self, blocks: list[Row], usage: Row | None = None, **more: Any) -> list[Row]:
        """One API answer, a row a block."""
        message = self.id("msg_")
        usage = usage or self.usage()
        rows = []
        for block in blocks:
            self.sent += len(block.get("text") or block.get("thinking") or "") + len(json.dumps(block.get("input") or ""))
            body = {
                "id": message,
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [block],
                "usage": usage,
            }
            rows.append(self.row("assistant", message=body, requestId=self.id("req_"), **more))
        return rows

    def call(self, name: str | None = None, **input: Any) -> Row:
        name = name or self.random.choice(TOOLS)
        return {
            "type": "tool_use",
            "id": self.id("toolu_"),
            "name": name,
            "input": input or {"file_path": f"/workspace/shop/{self.random.choice(WORDS)}.py"},
        }

    def result(self, call_row: Row, text: str, **more: Any) -> Row:
        block = call_row["message"]["content"][0]
        self.sent += len(text)
        content = [{"tool_use_id": block["id"], "type": "tool_result", "content": text, **more.pop("block", {})}]
        more.setdefault("parentUuid", call_row["uuid"])
        return self.row("user", message={"role": "user", "content": content}, sourceToolAssistantUUID=call_row["uuid"], **more)

    def turn(self, prompt: str | None = None, calls: int | None = None, size: int | None = None) -> None:
        """A turn of the person with 0 to 3 calls, parallel ones among them, and a closing answer."""
        self.say(prompt or self.random.choice(TASKS))
        count = self.random.randint(0, 3) if calls is None else calls
        if count:
            blocks = [{"type": "text", "text": "Looking at it."}, *(self.call() for _ in range(count))]
            rows = self.answer(blocks)[1:]
            for row in rows:
                self.result(row, self.text(size or self.random.randint(200, 6_000)))
        self.answer([{"type": "text", "text": self.text(60)}])

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def compact(self, summary: str, trigger: str = "auto", **about: Any) -> tuple[Row, Row]:
        last, before = self.parent, self.cached
        self.clock += 40
        self.sent, self.cached = len(summary) + 160, 0
        meta = {"trigger": trigger, "preTokens": before, "durationMs": 40_000, **about.pop("meta", {})}
        boundary = self.row(
            "system",
            subtype="compact_boundary",
            content="Conversation compacted",
            level="info",
            compactMetadata=meta,
            **({"parentUuid": None, "logicalParentUuid": last} | about),
        )
        self.parent = boundary["uuid"]
        preface = "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\n"
        row = self.row(
            "user",
            message={"role": "user", "content": preface + summary},
            isCompactSummary=True,
            isVisibleInTranscriptOnly=True,
        )
        return boundary, row

    def attachment(self, type: str, **more: Any) -> Row:
        self.sent += sum(len(v) for v in more.get("content", []) if isinstance(more.get("content"), list))
        return self.row("attachment", attachment={"type": type, **more})

    def gap(self, hours: float) -> None:
        """The process ends and another one goes on later: the cache is cold by then."""
        self.clock += hours * 3600
        self.cached = 0

    def line(self, row: Row) -> int:
        return next(n for n, other in enumerate(self.rows, 1) if other is row)

    def data(self) -> bytes:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows).encode()


@dataclass
class Planted:
    """A session to open and what is wrong with it. `lines`: one of them must be named."""

    files: dict[str, bytes]
    lines: set[int]
    layers: tuple[str, ...]
    verdicts: tuple[str, ...] = ("fault",)
    open_file: str = "session.jsonl"

    def write(self, folder: Path) -> Path:
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder / self.open_file


def claude(seed: int, **more: Any) -> Claude:
    random = Random(seed)
    return Claude(random, rate=random.uniform(2.4, 4.2), fixed=random.randrange(12_000, 30_000), **more)


def one(c: Claude, lines: set[int], *layers: str, **more: Any) -> Planted:
    return Planted({"session.jsonl": c.data()}, lines, layers, **more)


def api_error(c: Claude, words: str) -> None:
    """The row that Claude Code writes where the provider refused a request."""
    content = [{"type": "text", "text": words}]
    c.row(
        "assistant",
        message={"id": "e1", "role": "assistant", "model": "<synthetic>", "content": content},
        isApiErrorMessage=True,
    )


def sound(seed: int, before: int, after: int) -> Planted:
    """A healthy session with a resume, and with or without a compaction."""
    c = claude(seed)
    c.turn(RULE)
    c.turns(before)
    if c.random.random() < 0.5:
        c.compact(f"Goal: the shop. Rule: {RULE} Done: {c.text(300)}")
    c.turns(after)
    c.gap(9)
    c.turn("Go on.")
    return one(c, set(), verdicts=("clear",))


def nul_run(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before + after)
    lines = c.data().split(b"\n")
    at = c.random.randrange(1, len(lines) - 2)
    lines.insert(at, b"\0" * c.random.randrange(20, 4_000))
    return Planted({"session.jsonl": b"\n".join(lines)}, {at + 1}, ("log",))


def spliced(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before + after)
    lines = c.data().split(b"\n")
    at = c.random.randrange(0, len(lines) - 3)
    lines[at : at + 2] = [lines[at] + lines[at + 1]]
    return Planted({"session.jsonl": b"\n".join(lines)}, {at + 1}, ("log",))


def parent_never_written(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("And now?")
    c.parent = "ffffffff-never-written"
    row = c.answer([{"type": "text", "text": "Going on."}])[0]
    c.turns(after)
    return one(c, {c.line(row)}, "log")


def late_graft(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    fork = c.parent
    c.say("Run the migration.")
    call = c.answer([{"type": "text", "text": "Starting."}, c.call("Bash", command="migrate")])[1]
    c.parent = fork
    c.turns(after + 1)
    c.gap(30)
    graft = c.result(call, "Permission request expired. The command was not run.")
    return one(c, {c.line(call), c.line(graft)}, "branch")


def stale_leaf(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    fork, sent = c.parent, c.sent
    c.turn()
    c.say("Make the export stream.")
    call = c.answer([{"type": "text", "text": "Rewriting."}, c.call("Bash", command="test")])[1]
    c.clock -= 20
    running = c.parent
    c.parent = fork
    queued = c.say("Also add a test for that.")
    branch = c.parent
    c.parent = running
    c.result(call, "Ran 6 tests OK")
    c.answer([{"type": "text", "text": "Done, tests pass."}])
    c.parent, c.sent = branch, sent
    c.answer([{"type": "text", "text": "Which change do you mean?"}])
    c.turns(after)
    return one(c, {c.line(queued)}, "branch")


def dangling_logical_parent(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    boundary, _ = c.compact(f"Done: {c.text(200)} {RULE}", logicalParentUuid="ffffffff-in-no-file")
    c.turns(after)
    return one(c, {c.line(boundary)}, "boundary")


def error_as_summary(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before + 1)
    texts = [
        'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        "Request timed out.",
        "Prompt is too long",
        "Credit balance is too low",
        "API Error: Connection error.",
    ]
    boundary, summary = c.compact(c.random.choice(texts), meta={"durationMs": 300})
    c.turns(after)
    return one(c, {c.line(boundary), c.line(summary)}, "boundary")


def replayed(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    old = list(c.rows)
    last_old = c.parent
    c.compact(f"First: {c.text(200)}")
    c.turns(after)
    c.rows += old
    c.parent = last_old
    stop = c.row("system", subtype="stop_hook_summary", content="")
    boundary, _ = c.compact(f"Second: {c.text(200)}", trigger="manual")
    c.parent = stop["uuid"]
    start = len(c.rows)
    c.turns(1)
    lines = {c.line(stop), c.line(boundary), c.line(c.rows[start]), c.rows.index(old[0], len(old)) + 1}
    return one(c, lines, "boundary")


def elided_in_one_pass(seed: int, before: int, after: int) -> Planted:
    c = claude(seed, version="2.1.62")
    for _ in range(before + 1):
        c.turn(calls=1, size=9_000)
    hang = c.parent
    progress = "e0000001-progress"
    c.parent = progress
    early = c.row("system", subtype="turn_duration", durationMs=4_000)
    c.rows.append(
        {
            **{k: early[k] for k in ("timestamp", "sessionId", "version", "cwd")},
            "type": "progress",
            "uuid": progress,
            "parentUuid": hang,
            "isSidechain": False,
            "data": {"type": "hook_progress"},
            "toolUseID": "x",
        }
    )
    mark = c.sent
    for _ in range(after):
        c.turn(calls=1, size=900)
    c.gap(3)
    c.version = "2.1.86"
    c.say("What was the rule?")
    c.answer([{"type": "text", "text": "No rule came up."}], usage=c.usage(carried=c.sent - mark))
    return one(c, {c.line(early), c.line(early) + 1}, "projection")


def text_on_sibling(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Prepare the notes.")
    rows = c.answer([{"type": "text", "text": "Loading."}, c.call("Skill", skill="notes"), c.call("Read")])[1:]
    ack = c.result(rows[0], "Launching skill: notes")
    text = "Base directory for this skill: /skills/notes\n" + c.text(c.random.randrange(12_000, 40_000))
    c.sent += len(text)
    skill = c.row(
        "user",
        message={"role": "user", "content": [{"type": "text", "text": text}]},
        isMeta=True,
        parentUuid=ack["uuid"],
        sourceToolUseID=rows[0]["message"]["content"][0]["id"],
    )
    c.result(rows[1], c.text(600))
    c.answer([{"type": "text", "text": "Draft written."}])
    c.turns(after)
    c.gap(20)
    c.sent -= len(text)
    c.turn("Which sections does the skill ask for?", calls=0)
    return one(c, {c.line(skill)}, "projection")


def stored_gone(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Run the dump.")
    path = f"/tmp/agent-{seed}-gone/tasks/b7k2q.output"
    call = c.answer([c.call("Bash", command="dump")])[0]
    row = c.result(
        call,
        f"<persisted-output>\nOutput too large ({c.random.randrange(60, 400)}.1KB). Full output saved to: {path}\n\nPreview (first 2KB):\n{c.text(1_900)}\n...\n</persisted-output>",
    )
    c.answer([{"type": "text", "text": "Read the preview."}])
    c.turns(after)
    c.gap(30)
    c.say("What is on line 500?")
    read = c.answer([c.call("Read", file_path=path)])[0]
    c.result(read, "File does not exist.", block={"is_error": True})
    c.answer([{"type": "text", "text": "It is gone."}])
    return one(c, {c.line(row), c.line(read)}, "artifact")


def stored_cut(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Run the dump.")
    call = c.answer([c.call("Bash", command="dump")])[0]
    row = c.result(
        call,
        f"<persisted-output>\nOutput too large (88.0KB). Full output saved to: /home/dev/.claude/projects/-workspace-shop/session/tool-results/bq1.txt\n\nPreview (first 2KB):\n{c.text(1_900)}\n...\n</persisted-output>",
    )
    c.answer([{"type": "text", "text": "Read the preview."}])
    c.turns(after)
    planted = one(c, {c.line(row)}, "artifact")
    planted.files["session/tool-results/bq1.txt"] = c.text(c.random.randrange(100, 60_000)).encode()
    return planted


def call_id_twice(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Look.")
    call = c.call("Read")
    rows = c.answer([{**call, "input": {}}, call])
    c.result(rows[1], c.text(500))
    api_error(c, "API Error: 400 tool_use ids must be unique")
    return one(c, {c.line(row) for row in rows}, "pairing")


def killed_in_call(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Migrate and test.")
    rows = c.answer([{"type": "text", "text": "Both."}, c.call("Bash", command="migrate"), c.call("Bash", command="test")])[1:]
    c.result(rows[1], "Ran 41 tests OK")
    c.gap(2)
    c.say("Go on.")
    api_error(c, "API Error: 400 tool_use without tool_result")
    return one(c, {c.line(rows[0])}, "pairing")


def half_a_character(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Show the log.")
    call = c.answer([c.call("Bash", command="tail")])[0]
    row = c.result(call, c.text(500) + "HALF")
    api_error(c, "API Error: 400 invalid JSON")
    planted = one(c, {c.line(row)}, "provider", "log")
    planted.files["session.jsonl"] = planted.files["session.jsonl"].replace(b"HALF", b"\\ud83d")
    return planted


def emptied_thinking(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    c.say("Compare the two.")
    rows = c.answer(
        [{"type": "thinking", "thinking": "", "signature": "c2ln" * 20}, {"type": "text", "text": "Reading."}, c.call("Read")]
    )
    c.result(rows[2], c.text(900))
    text = 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"messages.7.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."}}'
    c.row(
        "assistant",
        message={"id": "e1", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]},
        isApiErrorMessage=True,
    )
    return one(c, {c.line(rows[0])}, "provider")


def started_empty(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    for _ in range(before + 2):
        c.turn(calls=1, size=c.random.randrange(4_000, 20_000))
    c.gap(9)
    prompt = c.say("Which rule did I give you?")
    row = c.answer([{"type": "text", "text": "None."}], usage=c.usage(carried=len(prompt["message"]["content"])))[0]
    return one(c, {c.line(row)}, "runtime")


def moved_transcript(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before + after)
    late = claude(seed + 1)
    late.gap(30)
    late.turn("Go on where we stopped.", calls=0)
    files = {
        "projects/-workspace-shop--worktrees-x/session.jsonl": c.data(),
        "projects/-workspace-shop/session.jsonl": late.data(),
    }
    return Planted(files, {1, 2}, ("runtime",), open_file="projects/-workspace-shop/session.jsonl")


def silent_hook(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.attachment("hook_success", hookName="SessionStart:startup", hookEvent="SessionStart", stdout=RULE)
    given = c.attachment(
        "hook_additional_context",
        content=[RULE + " Rule 2: money is an integer number of cents."],
        hookName="SessionStart:startup",
        hookEvent="SessionStart",
    )
    c.turns(before)
    c.compact(f"Done: {c.text(300)}")
    again = c.attachment("hook_success", hookName="SessionStart:compact", hookEvent="SessionStart", stdout="")
    c.turns(after)
    return one(c, {c.line(given), c.line(again)}, "memory")


def compaction_loop(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    call = c.call("Read", file_path="/workspace/shop/data/tariffs.csv")
    text, lines = c.text(c.random.randrange(150_000, 300_000)), set()
    c.say("Check the tariffs row by row.")
    for _ in range(3 + after % 3):
        row = c.answer([{"type": "text", "text": "I need the file."}, {**call, "id": c.id("toolu_")}])[1]
        lines.add(c.line(c.result(row, text)))
        lines.add(c.line(c.compact(f"Task: check the tariffs. {RULE}")[0]))
    c.answer([{"type": "text", "text": "I keep losing the file."}])
    return one(c, lines, "budget")


def prefix_broke(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    for _ in range(before + 2):
        c.turn(calls=1, size=c.random.randrange(30_000, 60_000))
    c.clock += c.random.uniform(30, 120)
    c.say("Export as CSV.")
    row = c.answer([{"type": "text", "text": "Looking."}], usage=c.usage(read=c.fixed - 1_500))[0]
    c.turns(after)
    return one(c, {c.line(row)}, "cache", verdicts=("fault", "undecidable"))


def delivered_not_shown(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    c.turns(before)
    row = c.attachment("queued_command", prompt="And keep every amount in cents.", commandMode="prompt")
    c.answer([{"type": "text", "text": "Also in cents."}])
    c.turns(after)
    return one(c, {c.line(row)}, "display", verdicts=("clear",))


def input_shrinks(seed: int, before: int, after: int) -> Planted:
    c = claude(seed)
    for _ in range(before + 3):
        c.turn(calls=1, size=c.random.randrange(15_000, 30_000))
    c.say("Is the rounding as we left it?")
    row = c.answer([{"type": "text", "text": "I no longer have that file."}], usage=c.usage(carried=int(c.sent * 0.45)))[0]
    return one(c, {c.line(row)}, "projection", "runtime", verdicts=("undecidable",))


FAULTS: dict[str, Callable[[int, int, int], Planted]] = {
    make.__name__: make
    for make in (
        nul_run, spliced, parent_never_written, late_graft, stale_leaf, dangling_logical_parent, error_as_summary, replayed,
        elided_in_one_pass, text_on_sibling, stored_gone, stored_cut, call_id_twice, killed_in_call, half_a_character,
        emptied_thinking, started_empty, moved_transcript, silent_hook, compaction_loop, prefix_broke, delivered_not_shown,
        input_shrinks,
    )
}  # fmt: skip
