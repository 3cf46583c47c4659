"""What became of estimates of L2: counted apart from predictions."""

from __future__ import annotations

import pytest

from gateway.fleet.outcome import Outcome
from gateway.kv.l2_estimate import L2Estimate
from gateway.router.prediction_counts import USAGE
from tests.gateway.router.toy_fleet import BLOCK_SIZE, Running, ToyFleet


def estimated(fleet: ToyFleet, estimate: L2Estimate) -> Running:
    """A prompt that was estimated to lie in L2 five seconds ago, and is asked for again now."""
    running = fleet.send(range(2000))
    estimate.finished(running.chain, BLOCK_SIZE, now=fleet.clock.now)
    running.attempt.end(Outcome.CLIENT_GONE)
    fleet.clock.now += 5
    return fleet.send(range(2000))


@pytest.mark.parametrize(
    ("found", "details", "compared", "right"),
    [
        (1792, True, 1792, 1792),
        (0, True, 1792, 0),
        (1024, True, 1792, 1024),
        (1984, True, 1792, 1792),
        (0, False, 0, 0),
    ],
)
def test_an_estimate_of_l2_is_counted_apart(found: int, details: bool, compared: int, right: int) -> None:
    """Right or wrong it is no prediction: neither error nor surprise, and trust is what it was."""
    estimate = L2Estimate()
    fleet = ToyFleet(l2=estimate)
    again = estimated(fleet, estimate)
    fleet.finish(again, details=details, loaded=found)
    counts, evidence = fleet.truth.total, fleet.truth.evidence(fleet.only.replica.key)

    assert again.attempt.decision.l2_estimate == 1792
    assert evidence is not None
    assert (counts.estimated_tokens, counts.estimated_compared_tokens) == (1792, compared)
    assert counts.estimated_found_tokens == right
    assert estimate.holds(fleet.clock.now) == pytest.approx((20_000 + right) / (20_000 + compared))
    assert (counts.predicted_tokens[USAGE], counts.over_tokens, counts.under) == (0, 0, found - right)
    assert (evidence.predicted_tokens, evidence.over_tokens, evidence.under_tokens) == (0, 0, found - right)
    assert (fleet.only.stats.trust, fleet.only.stats.trust_reason) == (1.0, "fresh")


def test_of_an_estimate_only_what_is_beyond_the_known_can_be_found() -> None:
    """640 tokens in the GPU were predicted; what usage tells beyond them is the estimate's."""
    estimate = L2Estimate()
    fleet = ToyFleet(l2=estimate)
    fleet.ask(range(647))
    fleet.finish(estimated(fleet, estimate), loaded=1500)
    fleet.finish(fleet.send(range(2000, 4000)), miscounts=1)
    counts = fleet.truth.total

    assert (counts.estimated_compared_tokens, counts.estimated_found_tokens) == (1152, 860)
    assert (counts.predicted_tokens[USAGE], counts.actual_tokens[USAGE], counts.under) == (640, 1500, 0)


def test_an_estimate_for_a_prompt_that_is_counted_otherwise_is_not_compared() -> None:
    """Its tokens are other tokens there."""
    estimate = L2Estimate()
    fleet = ToyFleet(l2=estimate)
    fleet.finish(estimated(fleet, estimate), loaded=1792, miscounts=1)

    assert (fleet.truth.total.estimated_tokens, fleet.truth.total.estimated_compared_tokens) == (1792, 0)
