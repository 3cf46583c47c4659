"""How well predictions hold under load, while replicas evict all the time."""

from __future__ import annotations

from tests.end_to_end.prediction_error import Crowding, Measured, Turn, measured


async def test_predictions_are_off_by_less_than_two_per_cent_of_prompt_tokens() -> None:
    """More is evicted than the caches hold, much is found all the same, and what is said to be found is."""
    crowding = Crowding(people=8, conversations=50, capacity_blocks=300)
    result = await measured(crowding)

    assert result.failures == []
    assert len(result.turns) == 250
    assert result.evicted > 3 * crowding.capacity_blocks
    assert result.hit > 0.3
    assert result.error < 0.02, result


def test_errors_of_both_signs_count() -> None:
    """They do not make up for each other; an exact turn is one to the token."""
    result = Measured([Turn(100, 50, 40), Turn(100, 30, 40), Turn(200, 100, 100)])

    assert (result.over, result.under, result.error) == (0.025, 0.025, 0.05)
    assert (result.hit, result.exact) == (0.45, 1 / 3)
