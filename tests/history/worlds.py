"""Random sessions: a list of small integers becomes a history with everything that can happen in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nova_nb.history import library
from nova_nb.history.chain import Node
from nova_nb.history.events import (
    CompactionBoundaryCreated,
    Event,
    MessageAppended,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    ReplyReceived,
    RequestSent,
    RuntimeStateCheckpointed,
    ToolStarted,
    Usage,
)
from nova_nb.history.live import LiveLog
from nova_nb.history.reading import read
from nova_nb.ids import Fixed
from nova_nb.projection.projector import Projector
from nova_nb.settings import ContextSettings

SETTINGS = ContextSettings(fsync="os")


def fold(events: list[Event]) -> Projector:
    """A projector that took these events."""
    projector = Projector(SETTINGS)
    for event in events:
        projector.add(event)
    return projector


class World:
    """A session under way. `act(op, n)` does one thing; `n` picks among what there is."""

    def __init__(self, home: Path, live: LiveLog | None = None) -> None:
        self.home = home
        self.ids = Fixed()
        self.live = live or library.create("shop", {"fsync": "os"}, "offline", home, self.ids)
        self.end = lambda: None
        self.take(self.live)
        self.count = 0

    def act(self, op: int, n: int) -> None:
        acts = [self.ask, self.ask, self.call, self.call, self.parallel, self.prompt, self.commit, self.undo,
                self.compact, self.rewind, self.checkpoint, self.open_call, self.resume, self.fork]  # fmt: skip
        acts[op % len(acts)](n)

    def add(self, kind: type[Event], letter: str, **fields: Any) -> Event:
        return self.live.append(kind(id=self.live.new_id(letter), at=self.live.now(), **fields))

    def say(self, role: str, content: list[dict[str, Any]]) -> str:
        return self.add(MessageAppended, "m", parent=self.live.head, role=role, content=content).id

    def text(self, n: int) -> dict[str, str]:
        self.count += 1
        return {"type": "text", "text": f"words {self.count} " + "x" * (n % 50) + ("\u2028é🙂" if n % 3 == 0 else "")}

    def ask(self, n: int) -> None:
        self.say("user", [self.text(n)])
        self.send()
        self.answer(self.say("assistant", [self.text(n)]))

    def call(self, n: int, count: int = 1) -> None:
        self.say("user", [self.text(n)])
        self.send()
        self.count += 1
        calls = [f"toolu_{self.count}_{i}" for i in range(count)]
        uses = [{"type": "tool_use", "id": c, "name": "read", "input": {"path": f"f{n}.py"}} for c in calls]
        self.answer(self.say("assistant", [self.text(n), *uses]))
        for c in calls:
            self.add(ToolStarted, "t", tool_use_id=c, name="read")
        results = [
            {"type": "tool_result", "tool_use_id": c, "content": f"result {c} {'y' * (n % 200)}"} for c in reversed(calls)
        ]
        self.say("user", results)
        self.send()
        self.answer(self.say("assistant", [self.text(n)]))

    def parallel(self, n: int) -> None:
        self.call(n, 2 + n % 3)

    def open_call(self, n: int) -> None:
        self.say("user", [self.text(n)])
        self.send()
        self.count += 1
        id = f"toolu_{self.count}_open"
        self.answer(self.say("assistant", [{"type": "tool_use", "id": id, "name": "run", "input": {"n": n}}]))
        if n % 2:
            self.add(ToolStarted, "t", tool_use_id=id, name="run")

    def prompt(self, n: int) -> None:
        self.add(PromptSet, "p", system=[{"type": "text", "text": f"You are helper {n}."}], tools=[{"name": f"tool{n % 3}"}])

    def results(self) -> list[str]:
        return [
            f"{m.id}#{b['tool_use_id']}"
            for m in self.live.chain if isinstance(m, MessageAppended)
            for b in m.content if b["type"] == "tool_result"
        ]  # fmt: skip

    def commit(self, n: int) -> None:
        targets = self.results()
        if targets:
            self.add(ProjectionCommitted, "c", action="reclaim", targets=[targets[n % len(targets)]], text=f"[reclaimed {n}]")

    def undo(self, n: int) -> None:
        commits = self.projector.commits
        if commits:
            self.add(ProjectionUndone, "u", commit=commits[n % len(commits)].id)

    def compact(self, n: int) -> None:
        if self.live.head is None or self.live.chain[-1:] == self.live.chain[:1]:
            return
        tail = [m for m in self.live.chain if isinstance(m, MessageAppended)][-(n % 7) :] if n % 7 else []
        while tail and (tail[0].role != "user" or tail[0].content[0]["type"] == "tool_result"):
            tail = tail[1:]
        self.add(
            CompactionBoundaryCreated, "k",
            logical_parent=self.live.head, content=[self.text(n)], attachment=[self.text(n)], kept=[m.id for m in tail],
        )  # fmt: skip

    def rewind(self, n: int) -> None:
        self.live.load_older()
        self.again()
        nodes = [e.id for e in self.live.events if isinstance(e, Node)]
        if nodes:
            self.live.rewind(nodes[n % len(nodes)])
            self.again()

    def checkpoint(self, n: int) -> None:
        self.add(RuntimeStateCheckpointed, "r", state={"cwd": f"/dir{n}", "mode": "work"})

    def send(self) -> None:
        request = self.projector.request(self.live.steps + 1)
        self.add(RequestSent, "q", step=self.live.steps + 1, leaf=self.live.head, hash=request.hash)

    def answer(self, message: str) -> None:
        sent = self.live.last(RequestSent)
        assert sent is not None
        self.add(ReplyReceived, "a", request=sent.id, message=message, usage=Usage(input=self.live.steps * 10, output=3))

    def again(self) -> None:
        """Start the fold again, as whoever folds must when older history was loaded."""
        old = self.projector
        self.take(self.live)
        assert self.projector.request().hash == old.request().hash

    def resume(self, n: int) -> None:
        before = state(self.live, self.projector)
        self.live.close()
        self.take(library.resume(self.live.session_id, self.home, self.ids))
        assert state(self.live, self.projector) == before

    def fork(self, n: int) -> None:
        chain = [m.id for m in self.live.chain]
        at = chain[n % len(chain)] if chain and n % 2 else None
        parent = last_requests(self.live)
        self.live.close()
        self.take(library.fork(self.live.session_id, at, self.home, self.ids))
        assert self.projector.request().hash == parent[self.live.head]

    def take(self, live: LiveLog) -> None:
        self.end()
        self.live = live
        self.projector = fold(live.events)
        self.end = live.subscribe(self.projector.add)


def state(live: LiveLog, projector: Projector) -> dict[str, Any]:
    """What must be the same after a resume."""
    checkpoint, prompt = live.last(RuntimeStateCheckpointed), live.last(PromptSet)
    return {
        "head": live.head,
        "chain": [n.id for n in live.chain],
        "request": projector.request().hash,
        "tokens": projector.tokens,
        "state": checkpoint and checkpoint.state,
        "prompt": prompt and prompt.id,
        "commits": {c.id for c in projector.commits if relevant(c, live)},
    }


def last_requests(live: LiveLog) -> dict[str | None, str]:
    """The hash of what was last seen from each node, from everything in the log."""
    assert live.directory is not None
    projector = Projector(SETTINGS)
    seen: dict[str | None, str] = {}
    for event in read(live.directory / "log.jsonl").events:
        projector.add(event)
        seen[projector.head] = projector.request().hash
    return seen


def relevant(commit: ProjectionCommitted, live: LiveLog) -> bool:
    chain = {n.id for n in live.chain}
    return any(t.partition("#")[0] in chain for t in commit.targets)
