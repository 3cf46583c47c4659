"""Session affinity by consistent hashing."""

from __future__ import annotations

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet


def test_a_session_stays_whatever_the_load() -> None:
    """Its replica is the same when that is the busiest, and for another gateway with another seed."""
    request, views = asked((1,), session="alice"), fleet(0, 0, 0, 0)
    home = load("session", {"seed": 1}).select(request, views).view
    home.inflight = 1000

    assert chosen(load("session", {"seed": 2}), request, views, 20) == {home.number}


def test_another_session_may_be_elsewhere() -> None:
    """Sessions are spread over all."""
    rival, views = load("session"), fleet(0, 0, 0, 0)

    assert {rival.select(asked((1,), session=f"s{n}"), views).view.number for n in range(50)} == {0, 1, 2, 3}


def test_few_sessions_move_when_a_replica_leaves() -> None:
    """Only those of the one that left."""
    rival, views = load("session"), fleet(0, 0, 0, 0)
    requests = [asked((1,), session=f"s{number}") for number in range(200)]
    before = [rival.select(request, views).view.number for request in requests]
    rival.left(3)
    after = [rival.select(request, views[:3]).view.number for request in requests]

    assert all(old in (new, 3) for old, new in zip(before, after))


def test_without_a_session_the_fewest_requests() -> None:
    """There is no key that all such requests would share."""
    assert chosen(load("session"), asked((1,)), fleet(2, 1, 2), 20) == {1}
