"""Speeds are learned from all replicas together."""

from __future__ import annotations

import pytest

from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.speeds import Speeds
from router_strategies._cost import Rates


def test_begin_with_their_priors() -> None:
    """As the settings say, or the defaults."""
    prior = Rates(prefill_tokens_s=12_000)
    speeds = Speeds(prior)

    assert (Speeds().rates, speeds.rates, speeds.samples) == (Rates(), prior, 0)
    assert [rate.value for rate in speeds.learned()][:2] == [12_000, 30_000]


def test_prefills_move_the_rates_at_once() -> None:
    """A fleet four times slower than believed is known to be so."""
    speeds = Speeds()
    for _ in range(1_000):
        speeds.prefill_seen(PrefillSample(actual_s=2.0, unscaled_s=0.5), 7.0)

    assert speeds.samples == 1_000
    assert speeds.rates.calibration == pytest.approx(4.0, rel=0.01)


def test_decoding_is_a_slow_mean() -> None:
    """Seconds and output tokens approach what is seen."""
    speeds = Speeds(decode_s=5.0)
    for _ in range(500):
        speeds.decode_seen(1.0)
        speeds.output_seen(10)

    assert speeds.decode_s == pytest.approx(1.0, rel=0.01)
    assert speeds.output_tokens == pytest.approx(10, rel=0.01)
