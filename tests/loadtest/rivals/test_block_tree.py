"""BlockTree: what was sent where, and what is forgotten of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.rivals._block_tree import BlockTree


def test_a_match_is_the_unbroken_beginning() -> None:
    """Each replica's match ends where it first lacks a block; one that was sent nothing matches nothing."""
    tree = BlockTree()
    tree.insert(0, (1, 2, 3), 0.0)
    tree.insert(1, (1, 2, 9), 0.0)
    tree.insert(2, (3, 4), 0.0)

    assert tree.matched((1, 2, 3, 4), (0, 1, 2, 3)) == {0: 3, 1: 2, 2: 0, 3: 0}


def test_an_empty_prompt_matches_nothing() -> None:
    """Without a full block there is nothing to match; all the same everyone asked about is in the answer."""
    tree = BlockTree()
    tree.insert(0, (1,), 0.0)

    assert tree.matched((), (0, 1)) == {0: 0, 1: 0}


def test_only_those_asked_about_are_matched() -> None:
    """A replica that cannot be chosen is not in the answer."""
    tree = BlockTree()
    tree.insert(0, (1,), 0.0)
    tree.insert(1, (1,), 0.0)

    assert tree.matched((1,), (1,)) == {1: 1}


def test_the_end_of_the_oldest_prompt_goes_first() -> None:
    """At most ``most`` blocks stay, and a prompt that is used again is as good as new."""
    tree = BlockTree()
    tree.insert(0, (1, 2), 0.0, most=4)
    tree.insert(0, (5, 6), 1.0, most=4)
    tree.insert(0, (1,), 2.0, most=4)
    tree.insert(0, (8, 9), 3.0, most=4)

    assert tree.size(0) == 4
    assert tree.matched((1, 2), (0,)) == {0: 1}
    assert tree.matched((5, 6), (0,)) == {0: 1}
    assert list(tree.oldest(0, 2)) == [5, 1]


def test_a_replica_with_too_little_room_keeps_a_beginning() -> None:
    """Of a prompt that is longer than all there is, the first blocks stay."""
    tree = BlockTree()
    tree.insert(0, (1, 2, 3), 0.0, most=2)

    assert tree.matched((1, 2, 3), (0,)) == {0: 2}


def test_each_replica_has_its_own_room() -> None:
    """What one forgets others still have."""
    tree = BlockTree()
    tree.insert(0, (1,), 0.0, most=1)
    tree.insert(1, (1,), 0.0, most=1)
    tree.insert(0, (2,), 1.0, most=1)

    assert tree.matched((1,), (0, 1)) == {0: 0, 1: 1}


def test_what_was_not_used_for_long_expires() -> None:
    """After ``ttl_s`` without use, and not before."""
    tree = BlockTree(ttl_s=10.0)
    tree.insert(0, (1, 2), 0.0)
    tree.insert(0, (1,), 5.0)

    tree.expire(10.0)
    assert tree.matched((1, 2), (0,)) == {0: 2}
    tree.expire(10.1)
    assert tree.matched((1, 2), (0,)) == {0: 1}
    tree.expire(16.0)
    assert tree.size(0) == 0


def test_a_replica_is_forgotten_with_all_it_had() -> None:
    """Others keep theirs; to forget one that nobody knows is nothing."""
    tree = BlockTree()
    tree.insert(0, (1,), 0.0)
    tree.insert(1, (1,), 0.0)

    tree.forget(0)
    tree.forget(7)

    assert tree.matched((1,), (0, 1)) == {0: 0, 1: 1}
    assert (tree.size(0), tree.size(1)) == (0, 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 6), st.integers(1, 8), st.booleans()),
        max_size=30,
    )
)
def test_it_agrees_with_one_list_of_blocks_for_each_replica(steps: list[tuple[int, int, int, int, bool]]) -> None:
    """After any insertions, bounds and departures it matches what a list by last use would, and none is too long."""
    tree, lists = BlockTree(), dict[int, list[int]]({number: [] for number in range(4)})

    for now, (number, start, length, most, leaves) in enumerate(steps):
        blocks = range(start, start + length)
        if leaves:
            tree.forget(number)
            lists[number] = []
        else:
            tree.insert(number, blocks, float(now), most=most)
            kept = [block for block in lists[number] if block not in blocks]
            lists[number] = [*kept, *reversed(blocks)][-most:]

    assert [tree.size(number) for number in range(4)] == [len(lists[number]) for number in range(4)]
    for start in range(6):
        prompt = range(start, 12)
        expected = {
            number: next(i for i, b in enumerate([*prompt, -1]) if b not in lists[number]) for number in range(4)
        }
        assert tree.matched(prompt, range(4)) == expected
