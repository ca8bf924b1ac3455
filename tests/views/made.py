"""Invented sessions for views: one with everything that can happen, and one of any size."""

from __future__ import annotations

from typing import Any

from nova_nb.foreign import nova as nova_format
from nova_nb.history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    Failure,
    MessageAppended,
    PromptSet,
    ReplyReceived,
    RequestSent,
    SessionStarted,
    ToolResultExternalized,
    Usage,
)
from nova_nb.history.log import Log, Source
from nova_nb.session import Session


class Script:
    """Writes a session event by event, the way the agent loop does."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        self.events: list[Event] = [
            SessionStarted(id="s", session="s", nova="0.1.0", model="offline", settings=settings or {}),
            PromptSet(
                id="p1",
                system=[{"type": "text", "text": "You are a careful agent. " * 40}],
                tools=[{"name": name, "description": name * 30, "input_schema": {}} for name in ("read", "run", "search")],
            ),
        ]
        self.head: str | None = None
        self.step = 0
        self.sent = 0

    def say(self, role: str, content: list[dict[str, Any]] | str, **more: Any) -> str:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        id = f"m{len(self.events)}"
        self.events.append(MessageAppended(id=id, parent=self.head, role=role, content=blocks, **more))
        self.head = id
        self.sent += sum(len(str(b)) for b in blocks)
        return id

    def ask(self, text: str) -> str:
        return self.say("user", text, origin="person")

    def answer(self, content: list[dict[str, Any]] | str) -> str:
        self.step += 1
        request = f"r{len(self.events)}"
        tokens = 700 + self.sent // 4
        self.events.append(RequestSent(id=request, step=self.step, leaf=self.head, prompt="p1", tokens=tokens))
        id = self.say("assistant", content, origin="model")
        usage = Usage(input=tokens // 10, cache_read=tokens - tokens // 10, output=40)
        self.events.append(
            ReplyReceived(id=f"y{len(self.events)}", request=request, message=id, usage=usage, stop_reason="end_turn")
        )
        return id

    def call(self, name: str, result: str, words: str = "Let me look.", spilled: int = 0) -> None:
        tool = f"t{len(self.events)}"
        self.answer(
            [
                {"type": "text", "text": words},
                {"type": "tool_use", "id": tool, "name": name, "input": {"path": "shop/orders.py"}},
            ]
        )
        meta = {}
        if spilled:
            artifact = f"tool-results/{tool}.txt"
            self.events.append(
                ToolResultExternalized(id=f"x{len(self.events)}", tool_use_id=tool, artifact=artifact, chars=spilled, lines=900)
            )
            meta = {"externalized": {tool: artifact}}
        self.say("user", [{"type": "tool_result", "tool_use_id": tool, "content": result}], origin="tool", meta=meta)

    def compact(self, summary: str, keep: int = 2, trigger: str = "auto") -> None:
        nodes = [e.id for e in self.events if isinstance(e, MessageAppended)]
        id = f"c{len(self.events)}"
        before = 700 + self.sent // 4
        self.sent = len(summary)
        self.events.append(
            CompactionBoundaryCreated(
                id=id, logical_parent=self.head, trigger=trigger, content=[{"type": "text", "text": summary}],
                attachment=[{"type": "text", "text": "Files read last: shop/orders.py\n" * 20}],
                kept=nodes[-keep:], tokens_before=before, tokens_after=700 + self.sent // 4,
            )
        )  # fmt: skip
        self.head = id

    def fail(self, part: str, message: str) -> None:
        self.events.append(Failure(id=f"f{len(self.events)}", part=part, message=message))

    def rewind(self, to: str) -> None:
        self.events.append(BranchSelected(id=f"b{len(self.events)}", leaf=to, reason="rewound by the person"))
        self.head = to

    def session(self, upto: int | None = None) -> Session:
        events = self.events[:upto]
        return Session(
            Log(Source("made/log.jsonl", "nova", "0.1.0", "s"), events, list(range(1, len(events) + 1))), nova_format
        )


def eventful(settings: dict[str, Any] | None = None) -> Script:
    """A rule, a spill, a compaction that loses the rule, a failure, a rewind."""
    s = Script(settings)
    s.ask("All timestamps are stored in UTC; never CURRENT_TIMESTAMP. Why does test_orders fail?")
    s.call("list", "shop/orders.py\nshop/db.py\ntests/test_orders.py")
    s.call("read", "def created(order):\n    return order.at\n" * 30)
    s.call("run", "FAILED tests/test_orders.py::test_created\n" * 40, spilled=68_000)
    fork = s.answer("The column default is local time. I will change it to UTC.")
    s.ask("Try a trigger instead.")
    s.call("read", "CREATE TRIGGER …\n" * 20)
    s.answer("A trigger hides the rule; I would not.")
    s.rewind(fork)
    s.ask("Right, keep it in the code.")
    s.call("patch", "patched shop/db.py")
    s.fail("compaction", "the model returned nothing")
    s.compact("The task is to mend test_orders. shop/db.py was patched.")
    s.ask("Did you keep the rule about timestamps?")
    s.call("search", "no match")
    s.answer("I see no rule about timestamps.")
    s.ask("Add the column updated_at.")
    return s


def long(rows: int, compact_every: int = 0) -> Script:
    """About `rows` events of one growing conversation."""
    s = Script()
    s.ask("Walk through the whole repository and say what each file does.")
    done = 0
    while len(s.events) < rows:
        s.call("read", f"file {done}: " + "x = compute(y)  # value of the row\n" * (done % 9 + 1))
        done += 1
        if done % 50 == 0:
            s.ask(f"Go on with part {done // 50}.")
        if compact_every and done % compact_every == 0:
            s.compact(f"Files up to {done} were read.")
    return s
