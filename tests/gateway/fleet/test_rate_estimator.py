"""Rates are learned from prefills: against the formula with noise, and against simulated engines."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import exp, isfinite
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.fleet.prefill_sample import PrefillSample, PrefillWork
from gateway.fleet.rate_estimator import RATES, Learning, RateEstimator
from router_strategies._cost import Rates, Work, prefill_seconds
from tests.gateway.fleet.engine_runs import REGIMES, error_of, prompts, samples_of

POOLED = Learning(ridge_s=1e9)  # one common factor, and nothing else
TRUTH = Rates(prefill_tokens_s=12_000, step_s=0.012, decoding_s=0.0006)
FOUR_TIMES_SLOWER = Rates(2_000, 30_000, 0.048, 30_000, 8_500, 0.4, decoding_s=0.0008)
ODDS = (Work(200, 500), Work(2_000, 2_000), Work(500, 60_000))


def _sample(truth: Rates, work: Work, *, speed: float = 1.0, decoding: int = 5, factor: float = 1.0) -> PrefillSample:
    tokens, pairs, steps, l1_tokens, l2_tokens = PrefillWork.of(work, Rates(), speed)
    actual_s = prefill_seconds(work, truth, speed, decoding) * factor
    return PrefillSample(actual_s, 1.0, tokens, pairs, steps, l1_tokens, l2_tokens, decoding * steps)


def _mixed(random: Random, *, l1: float = 0.0) -> Work:
    cached = random.choice([0, 2_000, 20_000])
    from_l1 = cached if random.random() < l1 else 0
    return Work(random.choice([100, 300, 1_000, 5_000]), cached, from_l1)


def _taught(
    truth: Rates, count: int, *, prior: Rates | None = None, learning: Learning | None = None, l1: float = 0.0
) -> RateEstimator:
    """By prompts of all kinds whose seconds vary by 30 %; one in a hundred comes three seconds late."""
    random, estimator = Random(7), RateEstimator(prior or Rates(), learning or Learning())
    for number in range(count):
        sample = _sample(truth, _mixed(random, l1=l1), decoding=random.randrange(20), factor=exp(random.gauss(0, 0.3)))
        late_s = 3.0 if number % 100 == 50 else 0.0
        estimator.seen(replace(sample, actual_s=sample.actual_s + late_s), float(number))
    return estimator


def _worst(estimator: RateEstimator, truth: Rates, works: tuple[Work, ...] = ODDS) -> float:
    """By how much the worst prediction is off, as a part of the truth."""
    return max(abs(prefill_seconds(w, estimator.rates, 1, 5) / prefill_seconds(w, truth, 1, 5) - 1) for w in works)


@pytest.mark.parametrize("count", [100, 10_000])
def test_a_fleet_slower_in_all_things_is_known_after_few_samples(count: int) -> None:
    """Also where nothing was ever loaded: unseen rates move with the others."""
    estimator = _taught(FOUR_TIMES_SLOWER, count)

    assert _worst(estimator, FOUR_TIMES_SLOWER, (*ODDS, Work(100, 20_000, 20_000))) < 0.25


@pytest.mark.parametrize("wrong", [0.25, 4.0])
def test_a_wrong_rate_is_told_from_the_others(wrong: float) -> None:
    """The prior of prefill alone is off: pooled, short and long prompts would be wrong in opposite ways."""
    prior = replace(TRUTH, prefill_tokens_s=TRUTH.prefill_tokens_s * wrong)

    full, pooled = (_worst(_taught(TRUTH, 2_000, prior=prior, learning=by), TRUTH) for by in (Learning(), POOLED))

    assert full < 0.2
    assert full < 0.75 * pooled


def test_host_memory_is_found_to_be_slow() -> None:
    """Ten times slower than believed, in three of ten requests; and what the others cost stays right."""
    truth = replace(TRUTH, l1_tokens_s=12_000)
    estimator = _taught(truth, 1_000, l1=0.3)

    assert _worst(estimator, truth, (*ODDS, Work(300, 20_000, 20_000))) < 0.3


def test_one_sample_moves_little_and_none_nothing() -> None:
    """The prior weighs a second of prefill, and one odd sample is not believed whole."""
    estimator = RateEstimator(Rates(), Learning())
    before = estimator.rates
    estimator.seen(_sample(TRUTH, Work(100, 0), factor=1000.0), 0.0)

    assert before == Rates()
    assert 1.0 < estimator.rates.calibration < 1.5


def test_a_speed_that_halves_is_known_soon() -> None:
    """Within a hundred samples, after thousands of another speed."""
    estimator, random = _taught(TRUTH, 3_000), Random(3)
    halved = Rates(6_000, 30_000, 0.024, 60_000, 17_000, decoding_s=0.0012)
    for _ in range(100):
        estimator.seen(_sample(halved, _mixed(random), factor=exp(random.gauss(0, 0.3))), 0.0)

    assert _worst(estimator, halved) < 0.25


def test_if_all_are_late_they_are_believed() -> None:
    """A hundred times slower is no outlier when everything is, whatever was usual before."""
    estimator, random = _taught(TRUTH, 1_000), Random(3)
    for _ in range(100):
        estimator.seen(_sample(TRUTH, _mixed(random), factor=100.0), 0.0)

    assert estimator.rates.calibration > 30


def test_rates_unseen_from_the_start_move_with_the_others() -> None:
    """Where many short prompts must outweigh the prior first."""
    estimator, random = RateEstimator(Rates(), Learning()), Random(3)
    for _ in range(200):
        estimator.seen(_sample(FOUR_TIMES_SLOWER, Work(random.randint(50, 300), 500)), 0.0)

    assert _worst(estimator, FOUR_TIMES_SLOWER, (Work(100, 20_000, 20_000),)) < 0.15


def test_samples_without_their_work_move_the_common_factor() -> None:
    """As a process of an older version tells them."""
    estimator = RateEstimator(Rates(), Learning())
    for _ in range(1_000):
        estimator.seen(PrefillSample(2.0, 0.5), 0.0)

    assert replace(estimator.rates, calibration=1.0) == Rates()
    assert estimator.rates.calibration == pytest.approx(4.0, rel=0.01)


def test_impossible_samples_are_ignored() -> None:
    """Nothing predicted, or time going backwards, teaches nothing."""
    estimator = RateEstimator(Rates(), Learning())
    for sample in (PrefillSample(1.0, 0.0), PrefillSample(-1.0, 1.0), PrefillSample(float("nan"), 1.0)):
        estimator.seen(sample, 0.0)

    assert (estimator.samples, estimator.rates) == (0, Rates())


def test_says_what_it_learned_from() -> None:
    """Each rate, calibration included, beside its prior; how many samples had something of it, and when the last."""
    learned = {rate.name: rate for rate in _taught(TRUTH, 2_000).learned()}

    assert tuple(learned) == RATES
    assert learned["prefill_tokens_s"].value == pytest.approx(12_000, rel=0.2)
    assert learned["prefill_tokens_s"].prior == 8_000
    assert learned["prefill_tokens_s"][3:] == (2_000, 1_999.0)
    assert learned["l1_tokens_s"][3:] == (0, None)


_AMOUNT = st.floats(0, 1e18) | st.just(0.0)


_SECONDS = st.floats(0, 1e7) | st.just(0.0)


@given(st.lists(st.builds(PrefillSample, *[_SECONDS] * 2, *[_AMOUNT] * 6), max_size=60))
@example([PrefillSample(0.0, 0.0, steps=1.0)] * 16)
@example([PrefillSample(1e7, 1e-300)] * 40)
def test_rates_stay_rates_whatever_comes(samples: list[PrefillSample]) -> None:
    """Finite, positive, and what a prefill costs never more than a thousand times off its prior."""
    estimator = RateEstimator(Rates(), Learning())
    for sample in samples:
        estimator.seen(sample, 0.0)

    assert all(isfinite(value) and value > 0 for value in asdict(estimator.rates).values())
    for work in (*ODDS, Work(0, 0), Work(0, 9_000, 9_000)):
        assert 0.00099 < prefill_seconds(work, estimator.rates) / prefill_seconds(work, Rates()) < 1_001


# Simulated engines: batching, chunks, waiting for the step under way, decoding beside


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("prefill_tokens_s", [48_000, 8_000, 3_000])
def test_engines_are_predicted_at_least_as_well_as_by_one_factor(regime: str, prefill_tokens_s: float) -> None:
    """Whatever is asked, however wrong the prior; after one sample, and after many."""
    make, gap_s, options = REGIMES[regime]
    samples = samples_of(make, count=900, gap_s=gap_s, options=options)
    last = samples[-200:]
    for count in (1, 400, len(samples) - 200):
        full, pooled = (RateEstimator(Rates(prefill_tokens_s), learning) for learning in (Learning(), POOLED))
        for sample in samples[:count]:
            full.seen(sample, 0.0)
            pooled.seen(sample, 0.0)
        assert error_of(full, last) < 1.1 * error_of(pooled, last) + 0.01
    assert error_of(full, last) < 0.25


@pytest.mark.parametrize(("told", "learned"), [((1.0, 0.5), 12_000), ((1.0, 1.0), 9_000)])
def test_unequal_replicas_are_pooled(told: tuple[float, float], learned: float) -> None:
    """Where their speeds are told, the rate of speed 1 is learned; else one between them."""
    estimator = RateEstimator(Rates(), Learning())
    for sample in samples_of(prompts(20, 8, 500, 5_000), count=600, gap_s=0.4, speeds=(1.0, 0.5), told=told):
        estimator.seen(sample, 0.0)
    rate = next(rate.value for rate in estimator.learned() if rate.name == "prefill_tokens_s")

    assert rate == pytest.approx(learned, rel=0.2)


def test_plain_answers_between_are_no_samples_and_spoil_none() -> None:
    """Half of the requests are not streamed: fewer samples, the same rates."""
    make = prompts(20, 8, 100, 3_000)
    all_streamed, half = (samples_of(make, count=600, gap_s=0.6, streamed=share) for share in (1.0, 0.5))
    estimator = RateEstimator(Rates(), Learning())
    for sample in half:
        estimator.seen(sample, 0.0)

    assert 20 < len(half) < len(all_streamed)
    assert error_of(estimator, all_streamed) < 0.25
