"""Speeds: what is learned of how fast replicas work, pooled over all of them.

Never learned replica by replica: with wrong priors the first one calibrated looks cheap and draws the herd. A replica
known to be faster or slower says so in its configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.rate_estimator import LearnedRate, Learning, RateEstimator
from router_strategies._cost import Rates

_DECODE_WEIGHT = 0.02
_REQUEST_WEIGHT = 0.02


class TypicalRequest(NamedTuple):
    """Means over the requests that were sent: seconds of prefill at speed 1.0, and tokens to compute."""

    prefill_s: float
    tokens: float


class Speeds:
    """Rates of prefill and loading, and the mean time and length of decoding."""

    def __init__(self, prior: Rates | None = None, *, learning: Learning | None = None, decode_s: float = 5.0) -> None:
        """``prior``: of a replica of speed 1.0. ``decode_s``: the prior of :attr:`decode_s`."""
        self._estimator = RateEstimator(prior or Rates(), learning or Learning())
        self.decode_s = decode_s  # mean seconds from first to last token
        self.output_tokens = 256.0  # mean
        self.typical: TypicalRequest | None = None  # None: none was sent

    @property
    def rates(self) -> Rates:
        return self._estimator.rates

    @property
    def samples(self) -> int:
        """Of prefills, by now."""
        return self._estimator.samples

    def learned(self) -> Iterator[LearnedRate]:
        """Every rate beside its prior, for people."""
        return self._estimator.learned()

    def prefill_seen(self, sample: PrefillSample, now: float) -> None:
        self._estimator.seen(sample, now)

    def sent(self, prefill_s: float, tokens: float) -> None:
        """A request was. ``prefill_s``: predicted, at speed 1.0."""
        if self.typical is None:
            self.typical = TypicalRequest(prefill_s, tokens)
            return
        mean_s, mean_tokens = self.typical
        self.typical = TypicalRequest(
            mean_s + _REQUEST_WEIGHT * (prefill_s - mean_s), mean_tokens + _REQUEST_WEIGHT * (tokens - mean_tokens)
        )

    def decode_seen(self, seconds: float) -> None:
        self.decode_s += _DECODE_WEIGHT * (seconds - self.decode_s)

    def output_seen(self, tokens: int) -> None:
        self.output_tokens += _DECODE_WEIGHT * (tokens - self.output_tokens)
