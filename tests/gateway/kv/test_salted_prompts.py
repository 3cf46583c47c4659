"""Beginnings of salted prompts are known for a while."""

from __future__ import annotations

from gateway.kv.salted_prompts import SaltedPrompts


def test_the_least_recently_sent_go_first() -> None:
    """Bounded; what is sent again counts as new."""
    salted = SaltedPrompts(most=3)
    salted.sent([1, 2])
    salted.sent([3])
    salted.sent([1])
    salted.sent([4])

    assert [block in salted for block in (1, 2, 3, 4)] == [True, False, True, True]
    assert len(salted) == 3
