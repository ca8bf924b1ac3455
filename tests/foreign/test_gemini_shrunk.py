"""A compression that no file holds is told from the counts, and one wild count is no sign of it."""

from __future__ import annotations

import pytest

from nova_nb.foreign.gemini.replay import Call, Message
from nova_nb.foreign.gemini.shrunk import shrunk
from nova_nb.history.events import Usage


def calls(counts: list[int]) -> list[Call]:
    """One call a count; each adds a message of 4,000 characters to the list."""
    messages = [Message(f"m{n}", {"content": "x" * 4_000}, n) for n in range(len(counts))]
    return [Call(messages[: n + 1], Message(f"a{n}", {"tokens": {"input": count}}, n), n) for n, count in enumerate(counts)]


def usage(message: Message) -> Usage:
    return Usage(input=message.data["tokens"]["input"])


@pytest.mark.parametrize(
    ("counts", "compressed"),
    [
        ([6_000, 7_000, 8_000, 9_000], []),
        ([6_000, 7_000, 900_000, 9_000], []),
        ([6_000, 7_000, 8_000, 2_500, 3_500], [3, 4]),
        ([6_000, 7_000, 900_000, 2_500, 3_500], [3, 4]),
        ([6_000, 7_000, 8_000, 2_500, 10_000], [3]),
    ],
)
def test_a_request_that_counts_too_few_tokens_was_compressed(counts: list[int], compressed: list[int]) -> None:
    found = shrunk(calls(counts), usage)
    assert [n for n, state in enumerate(found) if state is not None] == compressed
    for n in compressed:
        state = found[n]
        assert state is not None
        assert state.unsure == {f"m{k}" for k in range(compressed[0])}
