"""Speeds are learned from all replicas together."""

from __future__ import annotations

import pytest

from gateway.fleet.inflight import PrefillSample
from gateway.fleet.speeds import Speeds


def test_calibration_converges_to_the_ratio() -> None:
    """A fleet four times slower than believed is known to be so."""
    speeds = Speeds()
    for _ in range(2000):
        speeds.prefill_seen(PrefillSample(actual_s=2.0, unscaled_s=0.5))

    assert speeds.rates.calibration == pytest.approx(4.0, rel=0.01)


def test_one_odd_sample_moves_little() -> None:
    """The prior weighs a second: a sample of milliseconds cannot turn the fleet over."""
    speeds = Speeds()
    speeds.prefill_seen(PrefillSample(actual_s=0.1, unscaled_s=0.001))

    assert speeds.rates.calibration == pytest.approx(1.1, rel=0.01)


def test_impossible_samples_are_ignored() -> None:
    """Nothing predicted, or time going backwards, teaches nothing."""
    speeds = Speeds()
    speeds.prefill_seen(PrefillSample(actual_s=1.0, unscaled_s=0.0))
    speeds.prefill_seen(PrefillSample(actual_s=-1.0, unscaled_s=1.0))

    assert (speeds.samples, speeds.rates.calibration) == (0, 1.0)


def test_decoding_is_a_slow_mean() -> None:
    """Seconds and output tokens approach what is seen."""
    speeds = Speeds(decode_s=5.0)
    for _ in range(500):
        speeds.decode_seen(1.0)
        speeds.output_seen(10)

    assert speeds.decode_s == pytest.approx(1.0, rel=0.01)
    assert speeds.output_tokens == pytest.approx(10, rel=0.01)
