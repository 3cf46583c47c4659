"""Confidence: how sure a ratio is, from few paired measurements or from many unlike cells.

Ratios are averaged by their logarithms: twice as fast and twice as slow cancel out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev

LEAST_PAIRS = 3
RESAMPLES = 2000
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio, and where it lies with 95 % confidence; ``None``: too few measurements to tell."""

    value: float
    low: float | None = None
    high: float | None = None
    measured: int = 1  # pairs, or cells

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def of_pairs(ratios: Sequence[float]) -> Interval:
    """Geometric mean of the ratios of pairs, one a seed, with a t interval of their logarithms.

    Raises ``ValueError`` where there is none, or one that is not above 0.
    """
    logs = [math.log(ratio) for ratio in ratios]
    if not logs:
        raise ValueError("there are no pairs")
    mean = fmean(logs)
    if len(logs) < LEAST_PAIRS:
        return Interval(math.exp(mean), measured=len(logs))
    half = t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))


def of_cells(ratios: Sequence[float], *, seed: int = 0) -> Interval:
    """Geometric mean over cells; the interval is a bootstrap's: what other draws of such cells would have given."""
    logs = sorted(math.log(ratio) for ratio in ratios)
    if not logs:
        raise ValueError("there are no cells")
    mean = math.exp(fmean(logs))
    if len(logs) < LEAST_PAIRS:
        return Interval(mean, measured=len(logs))
    rng = Random(seed)
    means = sorted(fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    tail = int(RESAMPLES * (1 - _LEVEL) / 2)
    return Interval(mean, math.exp(means[tail]), math.exp(means[-1 - tail]), len(logs))


def t_quantile(freedom: int) -> float:
    """Between minus and plus this lie 95 % of Student's t with so many degrees of freedom."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < _LEVEL else (low, middle)
    return (low + high) / 2


def t_within(t: float, freedom: int) -> float:
    """Probability that Student's t lies between ``-t`` and ``t``: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = (cosine if odd else 1.0) if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
