"""The emulated prompt cache follows the provider's documented rules; each number here is one of them."""

from __future__ import annotations

from typing import Any

import pytest

from nova_nb.errors import ModelRefused
from nova_nb.ids import Fixed
from nova_nb.models.prompt_cache import PromptCache

LONG = "word " * 1_000


def part(text: str, marked: bool = False, **mark: str) -> dict[str, Any]:
    return {"type": "text", "text": text} | ({"cache_control": {"type": "ephemeral", **mark}} if marked else {})


def body(*blocks: dict[str, Any], system: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "system": system or [part(LONG, True)],
        "messages": [{"role": "user", "content": list(blocks)}],
        **more,
    }


@pytest.fixture
def clock() -> Fixed:
    return Fixed(tick=0)


@pytest.fixture
def cache(clock: Fixed) -> PromptCache:
    return PromptCache(clock)


def test_what_is_marked_is_written_once_and_then_read(cache: PromptCache) -> None:
    first, second = cache.charge(body(part("a"))), cache.charge(body(part("b")))
    assert (first.cache_read, second.cache_read) == (0, first.cache_write)
    assert second.cache_write == 0
    assert first.cache_write > 1_400


def test_the_four_parts_never_overlap(cache: PromptCache) -> None:
    request = body(part("tail " * 900, True), part("rest"))
    one, two = cache.charge(request), cache.charge(request)
    assert one.context == two.context == one.input + one.cache_write == two.input + two.cache_read


def test_one_changed_byte_before_the_mark_costs_the_whole_prefix(cache: PromptCache) -> None:
    cache.charge(body(part("a")))
    assert cache.charge(body(part("a"), system=[part(LONG + ".", True)])).cache_read == 0


def test_a_change_after_the_first_mark_costs_only_what_follows_it(cache: PromptCache) -> None:
    first = cache.charge(body(part("a " * 900, True)))
    second = cache.charge(body(part("b " * 900, True)))
    assert 0 < second.cache_read < first.cache_write


def test_another_model_or_other_tools_share_nothing(cache: PromptCache) -> None:
    cache.charge(body(part("a")))
    assert cache.charge({**body(part("a")), "model": "other"}).cache_read == 0
    assert cache.charge(body(part("a"), tools=[{"name": "t"}])).cache_read == 0


def test_a_short_prefix_is_not_cached(cache: PromptCache) -> None:
    short = [part("x" * 1_000, True)]
    assert cache.charge(body(part("a"), system=short)).cache_write == 0
    assert cache.charge(body(part("a"), system=short)).cache_read == 0


def test_an_entry_lives_five_minutes_from_its_last_use(cache: PromptCache, clock: Fixed) -> None:
    cache.charge(body(part("a")))
    for _ in range(3):
        clock.time += 299
        assert cache.charge(body(part("a"))).cache_read > 0
    clock.time += 300
    assert cache.charge(body(part("a"))).cache_read == 0


def test_an_hour_where_the_mark_says_so(cache: PromptCache, clock: Fixed) -> None:
    hour = [part(LONG, True, ttl="1h")]
    cache.charge(body(part("a"), system=hour))
    clock.time += 3_599
    assert cache.charge(body(part("a"), system=hour)).cache_read > 0


def test_five_marks_are_refused_by_number(cache: PromptCache) -> None:
    with pytest.raises(ModelRefused, match=r"maximum of 4 blocks .* Found 5\."):
        cache.charge(body(*[part("x", True)] * 4))


def test_a_prefix_is_found_twenty_blocks_before_a_mark_and_no_further(cache: PromptCache) -> None:
    start = [part(f"{LONG}{n}") for n in range(2)]
    cache.charge(body(start[0], part(start[1]["text"], True), system=[part("s")]))
    near = [*start, *[part(f"n{n}") for n in range(19)], part("end", True)]
    far = [*start, *[part(f"f{n}") for n in range(20)], part("end", True)]
    assert cache.charge(body(*near, system=[part("s")])).cache_read > 2_000
    assert cache.charge(body(*far, system=[part("s")])).cache_read == 0


def test_a_read_from_before_the_mark_renews_what_it_found(cache: PromptCache, clock: Fixed) -> None:
    start = part(LONG + LONG)
    mark = part(start["text"], True)
    cache.charge(body(mark, system=[part("s")]))
    clock.time += 200
    assert cache.charge(body(start, part("new", True), system=[part("s")])).cache_read > 0
    clock.time += 200
    assert cache.charge(body(start, part("other", True), system=[part("s")])).cache_read > 0
