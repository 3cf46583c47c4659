"""Speeds: what is learned of how fast replicas work, pooled over all of them.

Never learned replica by replica: with wrong priors the first one calibrated looks cheap and draws the herd. A replica
known to be faster or slower says so in its configuration.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.fleet.inflight import PrefillSample
from router_strategies._cost import Rates

_FORGETTING = 0.995
_DECODE_WEIGHT = 0.02
_LEAST_CALIBRATION, _MOST_CALIBRATION = 0.001, 1000.0


class Speeds:
    """Calibration of prefill seconds and the mean time and length of decoding."""

    def __init__(self, prior: Rates | None = None, *, prior_s: float = 1.0, decode_s: float = 5.0) -> None:
        """``prior_s``: how many seconds of prefill the prior weighs. ``decode_s``: the prior of :attr:`decode_s`."""
        self._rates = prior or Rates()
        self._actual_s = self._predicted_s = prior_s
        self.samples = 0
        self.decode_s = decode_s  # mean seconds from first to last token
        self.output_tokens = 256.0  # mean

    @property
    def rates(self) -> Rates:
        return self._rates

    def prefill_seen(self, sample: PrefillSample) -> None:
        if sample.unscaled_s <= 0 or sample.actual_s < 0:
            return
        self._actual_s = self._actual_s * _FORGETTING + sample.actual_s
        self._predicted_s = self._predicted_s * _FORGETTING + sample.unscaled_s
        self.samples += 1
        ratio = self._actual_s / self._predicted_s
        self._rates = replace(self._rates, calibration=min(max(ratio, _LEAST_CALIBRATION), _MOST_CALIBRATION))

    def decode_seen(self, seconds: float) -> None:
        self.decode_s += _DECODE_WEIGHT * (seconds - self.decode_s)

    def output_seen(self, tokens: int) -> None:
        self.output_tokens += _DECODE_WEIGHT * (tokens - self.output_tokens)
