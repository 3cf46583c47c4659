"""How well prefill seconds are predicted by what was learned of them: by all rates, and by one common factor alone.

    python -m benchmarks.learning

Simulated engines of 12,000 tokens a second; of the last 300 prefills the mean error, as a part of their seconds. The
same for the same code: times are simulated.
"""

from __future__ import annotations

from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.rate_estimator import Learning, RateEstimator
from router_strategies._cost import Rates
from tests.gateway.fleet.engine_runs import REGIMES, error_of, samples_of

COUNTS = (1, 30, 100, 300, 1_000)
PRIORS = (8_000, 48_000, 3_000)  # tokens a second
LEARNINGS = {"all rates": Learning(), "one factor": Learning(ridge_s=1e9)}


def _errors(samples: list[PrefillSample], prior: Rates, learning: Learning) -> list[float]:
    """After each of ``COUNTS`` samples."""
    estimator, errors = RateEstimator(prior, learning), []
    for number, sample in enumerate(samples[: COUNTS[-1]], start=1):
        estimator.seen(sample, 0.0)
        if number in COUNTS:
            errors.append(error_of(estimator, samples[-300:]))
    return errors


def main() -> None:
    """Print one line for each regime, prior and way of learning."""
    print(f"{'':20}{'prior':>10}  {'':12}" + "".join(f"{count:>8,}" for count in COUNTS) + " samples")
    for name, regime in REGIMES.items():
        samples = samples_of(regime.prompts, count=2_400, gap_s=regime.gap_s, options=regime.options)
        for prior in PRIORS:
            for way, learning in LEARNINGS.items():
                errors = _errors(samples, Rates(prefill_tokens_s=prior), learning)
                print(f"{name:20}{prior:10,}  {way:12}" + "".join(f"{error:8.0%}" for error in errors))


if __name__ == "__main__":
    main()
