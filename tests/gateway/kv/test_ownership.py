"""Counts of copies, and what an index is told of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.ownership import Ownership


def test_an_index_hears_of_first_and_last_copies_only() -> None:
    """Stored twice must be removed twice; between the two nothing changes."""
    ownership = Ownership()
    ownership.add([1, 2])
    assert ownership.take_changes() == (False, {1, 2}, set())

    ownership.add([2])
    ownership.remove(2)
    assert not ownership.changed

    ownership.remove(2)
    assert ownership.take_changes() == (False, set(), {2})
    assert 2 not in ownership


def test_within_one_batch_only_the_outcome_counts() -> None:
    """Removed and stored again, or stored and removed again, is no change."""
    ownership = Ownership()
    ownership.add([1])
    ownership.take_changes()

    ownership.remove(1)
    ownership.add([1, 2])
    ownership.remove(2)

    assert not ownership.changed


def test_an_announcement_repeated_does_not_add() -> None:
    """`ensure` sets to at least one: a single removal ends it."""
    ownership = Ownership()
    ownership.ensure([1])
    ownership.ensure([1])

    ownership.remove(1)

    assert ownership.copies(1) == 0


def test_credit_stops_at_the_first_owned_ancestor() -> None:
    """What lies before an owned block is owned too, unless a thorough look is asked for."""
    ownership = Ownership()
    ownership.add([2])

    ownership.credit([4, 3, 2, 1], thorough=False)
    assert [ownership.copies(block) for block in (1, 2, 3, 4)] == [0, 1, 1, 1]

    ownership.credit([4, 3, 2, 1], thorough=True)
    assert ownership.copies(1) == 1


def test_clear_comes_before_what_follows_it() -> None:
    """A clear wipes what the index was not told yet, and is told first."""
    ownership = Ownership()
    ownership.add([1, 2])
    ownership.clear()
    ownership.add([2])

    assert ownership.take_changes() == (True, {2}, set())


def test_an_exported_state_is_gone_on_from() -> None:
    """With the same counts and nothing to tell an index; neither side sees what the other does later."""
    ownership = Ownership()
    ownership.add([1, 2, 2])
    ownership.credit([3], thorough=False)
    state = ownership.export()
    ownership.remove(1)

    other = Ownership(state)
    other.remove(2)

    assert [other.copies(block) for block in (1, 2, 3)] == [1, 1, 1]
    assert not other.changed
    assert (other.blocks(), other.exact) == ([1, 2, 3], False)
    assert dict(state.copies) == {1: 1, 2: 2, 3: 1}
    assert ownership.copies(2) == 2


@given(
    st.lists(st.tuples(st.sampled_from(["add", "ensure", "remove", "clear", "take"]), st.integers(0, 5)), max_size=60)
)
def test_what_an_index_is_told_is_what_is_owned(steps: list[tuple[str, int]]) -> None:
    """Following the changes gives exactly the owned blocks, and counts never exceed the copies there are."""
    ownership = Ownership()
    copies: Counter[int] = Counter()
    told: set[int] = set()
    for step, block in [*steps, ("take", 0)]:
        match step:
            case "add":
                ownership.add([block])
                copies[block] += 1
            case "ensure":
                ownership.ensure([block])
                copies[block] = max(copies[block], 1)
            case "remove":
                ownership.remove(block)
                copies[block] = max(copies[block] - 1, 0)
            case "clear":
                ownership.clear()
                copies.clear()
            case _:
                changes = ownership.take_changes()
                told = (set() if changes.cleared else told) | set(changes.stored)
                assert set(changes.removed) <= told
                told -= set(changes.removed)
                assert told == {block for block, count in copies.items() if count}
        assert all(ownership.copies(block) == count for block, count in copies.items())
