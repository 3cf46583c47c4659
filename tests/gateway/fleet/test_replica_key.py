"""Replica ids, as users see them."""

from __future__ import annotations

from gateway.fleet.replica_key import ReplicaKey


def test_the_rank_shows_where_it_is_not_0() -> None:
    """Nearly every server has one rank: its id is the server's."""
    assert ReplicaKey("m", "a").replica_id == "a"
    assert ReplicaKey("m", "a", 2, 7).replica_id == "a#2"
