"""Nova in the peer harness: append (W1), resume (W2), resume of a compacted session (W2c), transcripts (W5).

Every message goes through `LiveLog.append`, as the agent loop's do: encode, checksum, one write,
fsync by policy, fold into head and chain. A resume is `library.resume`: the writer's lock, reading
from the end, checksums, chain, the notes on what was interrupted. What it gives are the neutral
messages of the active chain, the product's native form.
"""

from __future__ import annotations

import os

from adapters.base import SUMMARY, Adapter

import nova_nb
from nova_nb.history import library
from nova_nb.history.events import CompactionBoundaryCreated, MessageAppended
from nova_nb.history.live import LiveLog


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

    def resume(self, d: str) -> list[dict]:
        (session,) = os.listdir(os.path.join(d, "sessions"))
        self.live = library.resume(session, d)
        return messages(self.live)

    def prepare_compacted(self, d: str, turns: list[list[dict]], window: int) -> None:
        """A boundary each time the window is full: what is older than half of it becomes the stub summary."""
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


class NovaNBOs(NovaNB):
    DURABILITY = 'fsync="os": one write a message, no fsync'
    WORKLOADS = ("W1",)
    FSYNC = "os"


ADAPTERS = {"nova_nb": NovaNB, "nova_nb+nofsync": NovaNBOs}
