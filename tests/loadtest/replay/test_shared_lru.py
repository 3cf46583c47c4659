"""SharedLru: what one cache for all would find."""

from __future__ import annotations

from loadtest.replay.shared_lru import SharedLru
from loadtest.replay.trace import Turn


def prompt(*blocks: int, more: int = 10) -> Turn:
    return Turn(len(blocks) * 100 + more, 1, blocks)


def test_finds_the_longest_known_prefix_in_tokens() -> None:
    """And nothing the first time."""
    cache = SharedLru(None)
    assert cache.take(prompt(1, 2, 3), 100) == 0
    assert cache.take(prompt(1, 2, 9), 100) == 200
    assert cache.take(prompt(1, 2, 9), 100) == 300
    assert len(cache) == 4


def test_a_prompt_s_last_token_is_never_found() -> None:
    """An engine computes at least one: of a prompt of full blocks the last block does not count."""
    cache = SharedLru(None)
    cache.take(prompt(1, 2, more=0), 100)
    assert cache.take(prompt(1, 2, more=0), 100) == 100


def test_what_was_used_longest_ago_goes_first_and_deep_blocks_before_shallow_ones() -> None:
    """Room for four: of the first prompt, which was used again, its end goes; of the second all."""
    cache = SharedLru(4)
    cache.take(prompt(1, 2), 100)
    cache.take(prompt(5, 6), 100)
    cache.take(prompt(1, 2), 100)
    cache.take(prompt(7, 8, 9), 100)
    assert len(cache) == 4
    assert cache.take(prompt(1, 2), 100) == 100
    assert cache.take(prompt(5, 6), 100) == 0


def test_a_prompt_larger_than_the_cache_leaves_its_beginning() -> None:
    """And no cache at all finds nothing."""
    cache = SharedLru(2)
    cache.take(prompt(1, 2, 3, 4), 100)
    assert cache.take(prompt(1, 2, 3, 4), 100) == 200
    none = SharedLru(0)
    none.take(prompt(1), 100)
    assert none.take(prompt(1), 100) == 0
