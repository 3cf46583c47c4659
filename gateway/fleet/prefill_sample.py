"""PrefillWork: what a prefill asks of a replica; PrefillSample: what some asked, and how long they took.

Both are linear: what two prefills ask together is the sum, and so are their seconds under the cost model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from router_strategies._cost import Rates, Work


class PrefillWork(NamedTuple):
    """What the cost model counts of one prompt, at speed 1.0: at half the speed everything is twice as much."""

    tokens: float  # to compute
    pairs: float  # of a token to compute and one before it: attention
    steps: float  # of the engine
    l1_tokens: float  # to load from host memory
    l2_tokens: float  # to load from shared storage, and as many as could be loaded until its first one comes

    @classmethod
    def of(cls, work: Work, rates: Rates, speed: float) -> Self:
        """``rates``: for how long shared storage takes to begin."""
        uncached, cached, from_l1, from_l2 = work
        if from_l2:
            from_l2 += rates.l2_fixed_s * rates.l2_tokens_s
        pairs = uncached * (cached + uncached / 2)
        return cls(uncached / speed, pairs / speed, 1 / speed, from_l1 / speed, from_l2 / speed)


@dataclass(frozen=True, slots=True)
class PrefillSample:
    """Prefills whose seconds were seen, beside what was predicted of them without calibration, and their work.

    ``steps``: in how many they ended; 0: their work is not known. ``decoding``: sequences that decoded beside, added up
    over these steps. The rest as in :class:`PrefillWork`.
    """

    actual_s: float
    unscaled_s: float
    tokens: float = 0.0
    pairs: float = 0.0
    steps: float = 0.0
    l1_tokens: float = 0.0
    l2_tokens: float = 0.0
    decoding: float = 0.0

    @property
    def amounts(self) -> tuple[float, ...]:
        """What the seconds are made of, in the order of :data:`gateway.fleet.rate_estimator.RATES`."""
        return self.tokens, self.pairs, self.steps, self.l1_tokens, self.l2_tokens, self.decoding
