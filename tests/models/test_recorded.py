"""A recording answers the same bytes, adds what it did not hold, and never guesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from nova_nb.errors import ModelUnavailable, UsageError
from nova_nb.models.base import Delta
from nova_nb.models.offline import OfflineModel
from nova_nb.models.recorded import RecordedModel, key_of
from nova_nb.models.resolve import resolve
from nova_nb.projection.cache import mark

from .loop import TOOLS, said

BODY = {"tools": TOOLS, "messages": said("Why does test_orders fail?"), "max_tokens": 900}


async def test_a_replay_gives_what_was_recorded_with_no_model_at_all(tmp_path: Path) -> None:
    first = await RecordedModel(tmp_path / "r.jsonl", OfflineModel()).send(BODY)
    replayed = RecordedModel(tmp_path / "r.jsonl")
    deltas: list[Delta] = []
    assert await replayed.send(mark(BODY), deltas.append) == first
    assert [d.kind for d in deltas] == ["text", "tool_use"]
    with pytest.raises(ModelUnavailable, match="holds no reply"):
        await replayed.send({**BODY, "messages": said("Something else")})


async def test_a_request_that_is_known_is_not_sent_again(tmp_path: Path) -> None:
    model = RecordedModel(tmp_path / "r.jsonl", OfflineModel())
    await model.send(BODY)
    await model.send(BODY)
    assert (tmp_path / "r.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("change", [{"max_tokens": 901}, {"system": "x"}, {"model": "other"}, {"messages": said("x")}])
def test_the_key_is_what_the_model_sees(change: dict[str, object]) -> None:
    assert key_of({**BODY, **change}) != key_of(BODY)
    assert key_of({**BODY, "stream": True, "metadata": {}}) == key_of(BODY)


def test_a_name_becomes_a_model_and_any_other_a_sentence() -> None:
    model = OfflineModel()
    assert resolve(model) is model
    assert resolve("offline").provider == "offline"
    assert resolve("claude-opus-5-5", base_url="http://127.0.0.1:1").provider == "anthropic"
    for wrong, words in (("gpt-6", "OpenAI"), ("ofline", "names no model"), (3, "not int")):
        with pytest.raises(UsageError, match=words):
            resolve(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="base_url"):
        resolve("offline", base_url="http://127.0.0.1:1")
