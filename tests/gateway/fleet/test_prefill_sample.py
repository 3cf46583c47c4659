"""What a prefill asks for, as the cost model counts it."""

from __future__ import annotations

import pytest

from gateway.fleet.prefill_sample import PrefillSample, PrefillWork
from router_strategies._cost import Rates, Work, prefill_seconds


@pytest.mark.parametrize("speed", [1.0, 0.5])
@pytest.mark.parametrize("work", [Work(1000, 0), Work(300, 5000), Work(300, 5000, 2000), Work(300, 5000, 2000, 2500)])
def test_times_the_rates_it_is_the_cost_model(work: Work, speed: float) -> None:
    """Linear in what is counted, at any speed, from any tier."""
    rates = Rates()
    tokens, pairs, steps, l1_tokens, l2_tokens = PrefillWork.of(work, rates, speed)
    seconds = (
        tokens / rates.prefill_tokens_s
        + pairs / rates.prefill_tokens_s / rates.doubling_tokens
        + steps * rates.step_s
        + l1_tokens / rates.l1_tokens_s
        + l2_tokens / rates.l2_tokens_s
    )

    assert seconds == pytest.approx(prefill_seconds(work, rates, speed))


def test_amounts_stand_in_the_order_of_the_rates() -> None:
    """And leave out the seconds."""
    assert PrefillSample(9.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0).amounts == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
