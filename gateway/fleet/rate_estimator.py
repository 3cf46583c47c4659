"""RateEstimator: how fast replicas are, from prefills whose seconds were seen.

The cost model is linear in what a prefill asks for (``RATES``), so each rate has one unknown: its seconds over those of
its prior. They are learned as one common factor c, quickly, and a shape m beside it, slowly:

    actual = c * sum over rates of m * (predicted by the prior)

c is the ratio of sums, actual over predicted. m is a least-squares fit with weights 1/predicted (which with one
unknown is the ratio of sums again), drawn towards 1 as by ``ridge_s`` seconds seen: a rate that samples do not tell
apart from the others moves with c only. Every m is positive and bounded. A sample far above what is predicted counts
for no more than ``outlier`` times the usual deviation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import mul, truediv
from typing import NamedTuple

from gateway.fleet.prefill_sample import PrefillSample
from router_strategies._cost import Rates

#: The rates that are learned, by their names in ``Rates``, in the order of ``PrefillSample.amounts``.
RATES = ("prefill_tokens_s", "doubling_tokens", "step_s", "l1_tokens_s", "l2_tokens_s", "decoding_s")
_LEAST, _MOST = 1e-3, 1e3  # of any rate's seconds over its prior's
_LEAST_SHAPE, _MOST_SHAPE = 1 / 30, 30.0
_SWEEPS = 4  # from the last solution on
_LEAST_PREDICTED_S = 1e-9
_FITTED_EVERY = 16  # samples
_FIRST_DEVIATION, _LEAST_DEVIATION = 4.0, 0.5
_DEVIATION_WEIGHT = 0.1

#: What a sample should take by the priors, rate by rate; what it took, without the common factor; when it came.
_Fresh = tuple[tuple[float, ...], float, float]


class LearnedRate(NamedTuple):
    """One rate, calibration included, beside its prior; both in the unit that ends its name."""

    name: str
    value: float
    prior: float
    samples: int  # that had something of it
    last_s: float | None  # when the last of them came


@dataclass(frozen=True, slots=True)
class Learning:
    """How rates are learned. None of it needs tuning."""

    prior_s: float = 1.0  # seconds of prefill that the prior of the common factor weighs
    ridge_s: float = 0.1  # seconds of prefill that the prior of each rate's own factor weighs
    forgetting: float = 0.99  # of the common factor, per sample
    shape_forgetting: float = 0.999  # of each rate's own factor, per sample
    outlier: float = 3.0  # mean deviations above prediction beyond which a sample counts as if it were there


class RateEstimator:
    """``rates`` are always the newest. Bounded; a few microseconds a sample."""

    def __init__(self, prior: Rates, learning: Learning) -> None:
        self._prior = prior
        self._learning = learning
        self._unit_s = (
            1 / prior.prefill_tokens_s,
            1 / (prior.prefill_tokens_s * prior.doubling_tokens),
            prior.step_s,
            1 / prior.l1_tokens_s,
            1 / prior.l2_tokens_s,
            prior.decoding_s,
        )
        self._factor = 1.0
        self._least_factor, self._most_factor = _LEAST, _MOST
        self._actual_s = self._predicted_s = learning.prior_s
        self._deviation = _FIRST_DEVIATION  # mean of |actual - predicted| / predicted
        self._shape = [1.0] * len(RATES)
        self._fresh: list[_Fresh] = []  # samples that the sums below do not have yet
        self._products = [[0.0] * len(RATES) for _ in RATES]
        self._moments = [0.0] * len(RATES)
        self._samples = [0] * len(RATES)
        self._last_s: list[float | None] = [None] * len(RATES)
        self.samples = 0
        self.rates = prior

    def seen(self, sample: PrefillSample, now: float) -> None:
        """Learn from ``sample``; of one that cannot be, nothing."""
        terms = tuple(map(mul, sample.amounts, self._unit_s))
        is_known = sample.steps > 0
        unscaled_s = sum(map(mul, self._shape, terms)) if is_known else sample.unscaled_s
        if not (unscaled_s > _LEAST_PREDICTED_S and sample.actual_s >= 0):
            return
        self.samples += 1
        actual_s = self._without_excess(sample.actual_s, self._factor * unscaled_s)
        self._pool(actual_s, unscaled_s)
        if is_known:
            self._fresh.append((terms, actual_s / self._factor, now))
            if len(self._fresh) >= _FITTED_EVERY:
                self._fit()
        self._publish()

    def learned(self) -> Iterator[LearnedRate]:
        """Every rate, of the fleet's replicas of speed 1.0."""
        rates, factor = self.rates, self._factor
        values = (
            rates.prefill_tokens_s / factor,
            rates.doubling_tokens,
            rates.step_s * factor,
            rates.l1_tokens_s / factor,
            rates.l2_tokens_s / factor,
            rates.decoding_s * factor,
        )
        for n, name in enumerate(RATES):
            fresh = [now for terms, _, now in self._fresh if terms[n] > 0]
            last_s = fresh[-1] if fresh else self._last_s[n]
            yield LearnedRate(name, values[n], getattr(self._prior, name), self._samples[n] + len(fresh), last_s)

    def _without_excess(self, actual_s: float, predicted_s: float) -> float:
        """``actual_s``, or what is still believed where a first byte came late for other reasons.

        If all come so late the deviation grows with them, and soon they are believed.
        """
        most = self._learning.outlier * self._deviation
        deviation = min(abs(actual_s / predicted_s - 1), most)
        self._deviation += _DEVIATION_WEIGHT * (deviation - self._deviation)
        self._deviation = max(self._deviation, _LEAST_DEVIATION)
        return min(actual_s, predicted_s * (1 + most))

    def _pool(self, actual_s: float, unscaled_s: float) -> None:
        forgetting = self._learning.forgetting
        self._actual_s = self._actual_s * forgetting + actual_s
        self._predicted_s = self._predicted_s * forgetting + unscaled_s
        self._set_factor(self._actual_s / self._predicted_s)

    def _set_factor(self, factor: float) -> None:
        self._factor = min(max(factor, self._least_factor), self._most_factor)

    def _fit(self) -> None:
        """Find the shape anew, from the last one on."""
        self._add_fresh()
        self._share_with_factor()
        ridge_s, shape = self._learning.ridge_s, self._shape
        for _ in range(_SWEEPS):
            for n, row in enumerate(self._products):
                others = sum(map(mul, row, shape)) - row[n] * shape[n]
                best = (self._moments[n] + ridge_s - others) / (row[n] + ridge_s)
                shape[n] = min(max(best, _LEAST_SHAPE), _MOST_SHAPE)
        self._least_factor, self._most_factor = _LEAST / min(shape), _MOST / max(shape)
        self._set_factor(self._factor)

    def _add_fresh(self) -> None:
        rows, seconds, times = zip(*self._fresh)
        predicted = [sum(terms) for terms in rows]
        columns = list(zip(*rows))
        kept = self._learning.shape_forgetting ** len(rows)
        self._moments = [moment * kept for moment in self._moments]
        self._products = [[product * kept for product in row] for row in self._products]
        seen = [n for n, column in enumerate(columns) if any(column)]  # mostly nothing was loaded
        for n in seen:
            weighted = list(map(truediv, columns[n], predicted))
            self._moments[n] += sum(map(mul, weighted, seconds))
            row = self._products[n]
            for k in seen:
                row[k] += sum(map(mul, weighted, columns[k]))
            these = [now for term, now in zip(columns[n], times) if term]
            self._samples[n] += len(these)
            self._last_s[n] = these[-1]
        self._fresh.clear()

    def _share_with_factor(self) -> None:
        """What is common to all rates belongs to the factor: unseen ones move with it."""
        mean = sum(self._moments) / sum(map(sum, self._products))
        mean = min(max(mean, _LEAST_SHAPE), _MOST_SHAPE)
        self._moments = [moment / mean for moment in self._moments]
        self._predicted_s /= mean
        self._factor *= mean

    def _publish(self) -> None:
        prior = self._prior
        tokens, pairs, step, l1, l2, decoding = self._shape
        self.rates = Rates(
            prefill_tokens_s=prior.prefill_tokens_s / tokens,
            doubling_tokens=prior.doubling_tokens * tokens / pairs,
            step_s=prior.step_s * step,
            l1_tokens_s=prior.l1_tokens_s / l1,
            l2_tokens_s=prior.l2_tokens_s / l2,
            l2_fixed_s=prior.l2_fixed_s * l2,
            l2_least_tokens=prior.l2_least_tokens,
            decoding_s=prior.decoding_s * decoding,
            calibration=self._factor,
        )
