"""Distinct blocks in flight."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from loadtest.rivals._active_blocks import ActiveBlocks

#: Prompts as chains: a path in a tree, each block known by all that comes before it.
PROMPTS = st.lists(st.lists(st.integers(0, 1), max_size=6), max_size=12)


def chain(path: Sequence[int]) -> list[int]:
    return [hash(tuple(path[: length + 1])) for length in range(len(path))]


@given(PROMPTS, st.lists(st.integers(0, 1), max_size=6), st.data())
def test_counts_what_is_distinct(paths: list[list[int]], path: list[int], data: st.DataObject) -> None:
    """Like a set of the blocks of all prompts that are in flight, in any order of beginnings and ends."""
    active = ActiveBlocks()
    for prompt in paths:
        active.add(7, chain(prompt))
    ended = data.draw(st.sets(st.integers(0, len(paths) - 1))) if paths else set()
    for place in ended:
        active.remove(7, chain(paths[place]))
    left = {block for place, prompt in enumerate(paths) if place not in ended for block in chain(prompt)}

    assert active.after(7, chain(path)) == len(left | set(chain(path)))
    assert active.after(8, chain(path)) == len(path)


def test_a_forgotten_replica_has_none() -> None:
    """And the end of what it had changes nothing."""
    active = ActiveBlocks()
    active.add(1, [1, 2, 3])
    active.forget(1)
    active.remove(1, [1, 2, 3])

    assert active.after(1, [1]) == 1
