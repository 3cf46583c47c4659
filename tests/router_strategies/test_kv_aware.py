"""kv_aware: the least cost in seconds."""

from __future__ import annotations

import pytest

from router_strategies import Candidate, RouteRequest, load


def _choose(fleet: list[Candidate], **options: object) -> tuple[str, str]:
    choice = load("kv_aware", {"seed": 0, **options}).select(RouteRequest(1_000), fleet)
    return choice.candidate.id, choice.reason


@pytest.mark.parametrize(
    ("promised_s", "chosen", "reason"),
    [(0.0, "holder", "prefix"), (2.0, "holder", "prefix"), (3.5, "other", "spill")],
)
def test_own_seconds_weigh_three_times_promised_ones(promised_s: float, chosen: str, reason: str) -> None:
    """A holder that spares 1 s is worth up to 3 s of queue."""
    fleet = [
        Candidate("holder", expected_tokens=900, prefill_s=0.1, promised_s=promised_s),
        Candidate("other", prefill_s=1.1),
    ]

    assert _choose(fleet) == (chosen, reason)


def test_a_full_kv_memory_repels() -> None:
    """Of two equal replicas the one whose blocks are nearly all taken is avoided."""
    full = Candidate("full", kv_blocks_used=980, kv_blocks_needed=60, kv_blocks_capacity=1000, decode_s=5, prefill_s=1)
    free = Candidate("free", kv_blocks_used=10, kv_blocks_needed=60, kv_blocks_capacity=1000, decode_s=5, prefill_s=1)

    assert _choose([full, free]) == ("free", "cost")


def test_a_hot_prefix_is_copied_while_there_is_time() -> None:
    """Many requests on one prefix discount what another replica would recompute; at a busy fleet they do not."""
    fleet = [
        Candidate("holder", expected_tokens=900, prefill_s=0.1, promised_s=2.0, sharing=10),
        Candidate("other", prefill_s=1.1),
    ]
    strategy = load("kv_aware")

    chosen = [
        strategy.select(RouteRequest(1_000, utilisation=utilisation), fleet).candidate.id
        for utilisation in (0.0, 0.5, 0.9, 1.0)
    ]

    assert chosen == ["other", "other", "holder", "holder"]


def test_an_overloaded_neighbour_does_not_take_affinity_from_others() -> None:
    """One replica with a huge queue changes nothing for a request whose holder is idle."""
    fleet = [
        Candidate("holder", expected_tokens=900, prefill_s=0.1),
        Candidate("overloaded", prefill_s=1.1, promised_s=500.0),
        Candidate("other", prefill_s=1.1),
    ]

    assert _choose(fleet) == ("holder", "prefix")
