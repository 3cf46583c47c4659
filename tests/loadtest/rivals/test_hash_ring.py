"""HashRing: who follows a key."""

from __future__ import annotations

from collections import Counter

from loadtest.rivals._hash_ring import HashRing

KEYS = [f"key {number}" for number in range(1000)]


def test_all_follow_and_each_once() -> None:
    """A key is followed by every replica, in an order of its own that stays."""
    ring = HashRing(160)
    orders = [tuple(ring.following(key, range(5))) for key in KEYS[:50]]

    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len(set(orders)) > 10
    assert orders == [tuple(HashRing(160).following(key, range(5))) for key in KEYS[:50]]


def test_keys_are_spread() -> None:
    """Each of four replicas has between 15 % and 35 % of the keys."""
    counts = Counter(next(HashRing(160).following(key, range(4))) for key in KEYS[:200])

    assert all(30 <= counts[number] <= 70 for number in range(4)), counts


def test_few_keys_move() -> None:
    """One replica more takes its share from the others, and no key moves between these; the same back again."""
    ring = HashRing(160)
    before = {key: next(ring.following(key, range(4))) for key in KEYS}
    after = {key: next(ring.following(key, range(5))) for key in KEYS}
    moved = {key for key in KEYS if after[key] != before[key]}

    assert {after[key] for key in moved} == {4}
    assert 100 < len(moved) < 300
    assert {key: next(ring.following(key, range(4))) for key in KEYS} == before


def test_placements_differ() -> None:
    """Another placement is another order."""
    first, second = HashRing(160, 0), HashRing(160, 1)

    assert [next(first.following(key, range(9))) for key in KEYS[:20]] != [
        next(second.following(key, range(9))) for key in KEYS[:20]
    ]
