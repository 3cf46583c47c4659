"""Blocks of a simulated GPU: found as soon as they are computed, gone least recently used first, never too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.engine_cache import EngineCache, Hold


def computed(cache: EngineCache, blocks: list[int], total: int | None = None) -> Hold:
    hold = cache.admit(blocks, len(blocks), len(blocks) if total is None else total)
    assert hold is not None
    cache.compute(hold, len(blocks))
    return hold


def test_a_prompt_is_found_from_the_step_on_that_computes_it() -> None:
    cache = EngineCache(10)
    hold = cache.admit([1, 2, 3], 3, 4)
    assert hold is not None
    cache.compute(hold, 2)
    assert cache.match([1, 2, 3], 3) == 2
    cache.compute(hold, 3)
    assert (cache.match([1, 2, 3], 3), cache.stored) == (3, [1, 2, 3])


def test_the_last_blocks_are_not_looked_for_beyond_what_may_be_found() -> None:
    cache = EngineCache(10)
    computed(cache, [1, 2, 3])
    assert cache.match([1, 2, 3], 2) == 2


def test_the_end_of_a_finished_prompt_goes_before_its_beginning() -> None:
    cache = EngineCache(4)
    cache.release(computed(cache, [1, 2, 3]))
    computed(cache, [7, 8])
    assert cache.removed == [3]
    assert cache.match([1, 2, 3], 3) == 2


def test_of_finished_prompts_the_least_recently_used_goes_first() -> None:
    cache = EngineCache(4)
    cache.release(computed(cache, [1, 2]))
    cache.release(computed(cache, [3, 4]))
    cache.release(computed(cache, [1, 2]))
    computed(cache, [5])
    assert cache.removed == [4]


def test_what_is_held_is_not_thrown_out_and_keeps_others_waiting() -> None:
    cache = EngineCache(4)
    hold = computed(cache, [1, 2], total=3)
    assert cache.admit([5, 6], 2, 2) is None
    cache.release(hold)
    assert cache.admit([5, 6], 2, 2) is not None


def test_two_that_share_a_prompt_need_its_blocks_once() -> None:
    cache = EngineCache(4)
    computed(cache, [1, 2, 3])
    second = cache.admit([1, 2, 3], 3, 4)
    assert second is not None
    assert second.found == 3
    assert cache.usage == 1.0


def test_a_second_copy_is_not_stored_again() -> None:
    cache = EngineCache(10)
    first, second = cache.admit([1, 2], 2, 2), cache.admit([1, 2], 2, 2)
    assert first is not None
    assert second is not None
    cache.compute(first, 2)
    cache.compute(second, 2)
    assert cache.stored == [1, 2]
    cache.release(first)
    cache.release(second)
    assert cache.usage == 0.0


def test_one_that_is_larger_than_the_cache_gets_all_of_it() -> None:
    cache = EngineCache(2)
    hold = cache.admit([1, 2, 3], 3, 4)
    assert hold is not None
    cache.compute(hold, 3)
    assert cache.stored == [1, 2]
    assert cache.usage == 1.0


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.booleans()), max_size=40))
def test_it_never_holds_more_than_it_has_and_tells_of_every_change(steps: list[tuple[int, int, bool]]) -> None:
    cache, running, told = EngineCache(8), list[Hold](), set[int]()
    for length, family, ends in steps:
        blocks = [family * 10 + place for place in range(length)]
        hold = cache.admit(blocks, length, length + 1)
        if hold is not None:
            cache.compute(hold, length)
            running.append(hold)
        if ends and running:
            cache.release(running.pop(0))
        told |= set(cache.stored)
        told -= set(cache.removed)
        cache.stored.clear()
        cache.removed.clear()
        assert len(told) <= 8
        assert 0.0 <= cache.usage <= 1.0
        assert all(cache.match([block], 1) == (block in told) for block in range(40))
    for hold in running:
        cache.release(hold)
    assert cache.usage == 0.0
