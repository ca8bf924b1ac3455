"""Nova in the peer harness: append (W1), resume (W2), of a compacted session (W2c), requests (W3, W4), transcripts (W5).

Every message goes through `LiveLog.append`, as the agent loop's do: encode, checksum, one write,
fsync by policy, fold into head and chain. A resume is `library.resume`: the writer's lock, reading
from the end, checksums, chain, the notes on what was interrupted. What it gives are the neutral
messages of the active chain, the product's native form.
"""

from __future__ import annotations

import os
from typing import ClassVar

import msgspec
from adapters.base import SUMMARY, Adapter

import nova_nb
from nova_nb.history import library
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended, RequestSent
from nova_nb.history.live import LiveLog
from nova_nb.projection.projector import Projector
from nova_nb.projection.strategies import STRATEGIES
from nova_nb.projection.strategies.full import FullStack
from nova_nb.settings import PRESETS, ContextSettings


def _open_session(path: str) -> list:
    """W5: a Claude Code transcript as `open_session` reads it: events with ids, parents, usage, blocks and line numbers."""
    return nova_nb.open_session(path).log.events


class NovaNB(Adapter):
    WORKLOADS = ("W1", "W2", "W2c", "W5")
    PARSERS = {"open_session": _open_session}  # noqa: RUF012
    DISTS = ("msgspec", "filelock")
    DURABILITY = 'fsync="durable" (default): one write and one fdatasync a message'
    COMPACTED = "half"
    FSYNC = "durable"

    def chars(self, natives: list[dict]) -> int:
        import generator

        return generator.text_chars(m for m in natives if m["content"] != [{"type": "text", "text": SUMMARY}])

    def open(self, d: str) -> None:
        self.live = library.create(settings={"fsync": self.FSYNC}, model="bench", home=d)

    def append(self, m: dict) -> None:
        live = self.live
        live.append(MessageAppended(id=live.new_id(), at=live.now(), parent=live.head, role=m["role"], content=m["content"]))

    def close(self) -> None:
        self.live.close()

    def prepare(self, d: str, natives: list[dict]) -> None:
        self.FSYNC = "os"  # not timed, and the file is the same
        super().prepare(d, natives)

    def resume(self, d: str) -> list[dict]:
        (session,) = os.listdir(os.path.join(d, "sessions"))
        self.live = library.resume(session, d)
        return messages(self.live)

    def prepare_compacted(self, d: str, turns: list[list[dict]], window: int) -> None:
        """A boundary each time the window is full: what is older than half of it becomes the stub summary."""
        self.FSYNC = "os"  # not timed, and the file is the same
        self.open(d)
        limit = window * 4
        sizes: list[tuple[str, int, bool]] = []
        for turn in turns:
            for m in turn:
                if m["role"] == "assistant" and sum(n for _, n, _ in sizes) > limit:
                    while sizes and (sum(n for _, n, _ in sizes) > limit // 2 or not sizes[0][2]):
                        sizes.pop(0)
                    self.live.append(
                        CompactionBoundaryCreated(
                            id=self.live.new_id("c"), logical_parent=self.live.head,
                            content=[{"type": "text", "text": SUMMARY}], kept=[id for id, _, _ in sizes],
                        )
                    )  # fmt: skip
                self.append(m)
                import generator

                sizes.append(
                    (str(self.live.head), generator.text_chars([m]), m["content"][0]["type"] == "text" and m["role"] == "user")
                )
        self.close()


def messages(live: LiveLog) -> list[dict]:
    """The active chain as neutral messages."""
    return [
        {"role": n.role, "content": n.content} if isinstance(n, MessageAppended) else {"role": "user", "content": n.content}
        for n in live.chain
    ]


class NovaContext(Adapter):
    """Requests (W3, W4): the same path as the agent loop's, every strategy of `nova_nb.projection.strategies`.

    `request` is what the loop does before a model call: reclaim and compaction decided and applied, the request
    with its hash and its shared prefix, and the record that it was sent. Tokens are counted at 4 characters each,
    like every other peer's here.
    """

    WORKLOADS = ("W3", "W4")
    DISTS = ("msgspec",)
    TUNED: ClassVar = {
        "full+late": PRESETS["late"],
        "full+lean": PRESETS["lean"],
        "full+early": {"soft_margin_tokens": 150_000, "tail_min_tokens": 2_000, "attachment_files": 0},
    }
    STRATEGIES: ClassVar = {
        **{name: f"strategy {name!r}, default settings at this window" for name in STRATEGIES},
        "full+late": "the full stack under the preset 'late' (185k tokens): the largest share, and the largest requests",
        "full+lean": "the full stack under the preset 'lean' (results over 3,000 characters in files, 80k tokens): all four columns at once",
        "full+early": "the full stack, compacting at 30k tokens: near the least cost where the cache reads at a tenth",
    }

    def chars(self, natives: list[dict]) -> int:
        import generator

        return generator.text_chars(natives)

    def start(self, strategy: str, window_tokens: int) -> None:
        name = strategy.split("+")[0]
        settings = ContextSettings(window_tokens=window_tokens, chars_per_token=4, **self.TUNED.get(strategy, {}))
        self.strategy = FullStack(settings, summarise=lambda _: SUMMARY) if name == "full" else STRATEGIES[name](settings)
        self.projector, self.n = Projector(settings), 0

    def push(self, m: dict) -> None:
        self.n += 1
        message, events = self.strategy.arrive(MessageAppended(id=f"m{self.n}", role=m["role"], content=m["content"]))
        for event in events:
            self.projector.add(event)
        self.projector.add(msgspec.structs.replace(message, parent=self.projector.head))

    def request(self) -> list[dict]:
        for event in self.strategy.before_request(self.projector, ""):
            self.projector.add(event)
        request = self.projector.request()
        self.projector.add(RequestSent(id=f"r{self.n}", step=self.n, leaf=self.projector.head, hash=request.hash))
        return request.messages


class NovaNBOs(NovaNB):
    DURABILITY = 'fsync="os": one write a message, no fsync'
    WORKLOADS = ("W1",)
    FSYNC = "os"


ADAPTERS = {"nova_nb": NovaNB, "nova_nb+nofsync": NovaNBOs, "nova_nb+context": NovaContext}
