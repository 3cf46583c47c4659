"""Who empties a replica's cache through the gateway is seen at once."""

from __future__ import annotations

import pytest

from gateway.fleet.replica import Replica
from gateway.router.exchange import Exchange
from gateway.router.reset_watch import ResetWatch
from tests.gateway.examples import a_decision, a_pool


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/reset_prefix_cache", 200, ["b"]),
        ("/sleep", 200, ["b"]),
        ("/reset_prefix_cache", 503, []),
        ("/wake_up", 200, []),
        ("", 200, []),
    ],
)
def test_resets_that_were_done_are_told(path: str, status: int, told: list[str]) -> None:
    """Of the replica that answered; not those that failed, nor anything else."""
    pool = a_pool()
    emptied: list[Replica] = []
    pool.listen_to_resets(emptied.append)
    ResetWatch(pool).observe(
        Exchange("control", "1", 0.0, status=status, decision=a_decision(replica_id="b"), control=path)
    )

    assert [replica.id for replica in emptied] == told


def test_what_reached_nobody_or_one_that_left_is_nothing() -> None:
    """No decision, or its replica is not in the pool any more."""
    pool = a_pool()
    emptied: list[Replica] = []
    pool.listen_to_resets(emptied.append)
    for decision in (None, a_decision(replica_id="gone")):
        ResetWatch(pool).observe(
            Exchange("control", "1", 0.0, status=200, decision=decision, control="/reset_prefix_cache")
        )

    assert emptied == []
