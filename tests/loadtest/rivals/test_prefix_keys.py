"""By how much of a prompt it is hashed."""

from __future__ import annotations

from loadtest.rivals._prefix_keys import PrefixKeys


def test_a_rare_beginning_is_its_own_key() -> None:
    """One block says enough."""
    keys = PrefixKeys(window=100)

    assert [keys.key([block, 99], 0.25) for block in range(10)] == list(range(10))


def test_a_hot_beginning_needs_more() -> None:
    """Half of all begin with block 0, a quarter may have a key in common."""
    keys = PrefixKeys(window=100)
    for number in range(1, 50):
        keys.key([0, number], 0.25)
        keys.key([1000 + number], 0.25)

    assert keys.key([0, 77, 78], 0.25) == 77
    assert keys.key([2000, 77], 0.25) == 2000


def test_what_cooled_down_is_forgotten() -> None:
    """After a window without it, block 0 is enough again."""
    keys = PrefixKeys(window=20)
    for number in range(1, 20):
        keys.key([0, number], 0.25)
    for number in range(100, 130):
        keys.key([number], 0.25)

    assert keys.key([0, 5], 0.25) == 0


def test_a_prompt_that_is_common_to_its_end_is_its_own_key() -> None:
    """There is nothing more to tell it by."""
    keys = PrefixKeys(window=20)

    assert [keys.key([0, 1], 0.25) for _ in range(10)][-1] == 1
