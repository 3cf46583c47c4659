"""Figures: what one run amounts to, in numbers that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean, pstdev
from typing import Any

from loadtest.closed_loop import percentile
from loadtest.replay.outcome import Outcome, QueueSample, Served

SLO_S = 2.0
WARMUP = 0.1


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the requests after the warm-up. Six digits are kept, so that a file of figures reads back the same."""

    counted: int  # requests
    errors: int  # requests of the whole run that could be sent nowhere
    hit_l0: float  # share of the prompt tokens that this tier had; the three are disjoint
    hit_l1: float
    hit_l2: float
    bound: float  # that share, of all tiers, for one cache that never forgets; of the whole trace
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    goodput: float  # share with a TTFT of at most the SLO and what it took alone; errors are in it and are not good
    imbalance: float  # standard deviation over mean of the replicas' queues, mean of the moments when any was there
    longest_queue_tokens: float  # mean over time
    decisions_s: float  # per second of real time: the one figure that differs from run to run

    @classmethod
    def of(cls, outcome: Outcome, *, warmup: float = WARMUP, slo_s: float = SLO_S, bound: float = 0.0) -> Figures:
        """``warmup``: share of the requests, in order of arrival, that fill the caches and are left out.

        Raises ``ValueError`` where no request is left.
        """
        served = outcome.served[int(warmup * len(outcome.served)) :]
        if not served:
            raise ValueError("no request was served")
        queues = [sample for sample in outcome.queues if sample.at_s >= served[0].arrived_s]
        tokens = sum(one.prompt_tokens for one in served)
        ttfts = sorted(one.ttft_s for one in served)
        return cls(
            counted=len(served),
            errors=outcome.errors,
            hit_l0=_six(sum(one.l0_tokens for one in served) / tokens),
            hit_l1=_six(sum(one.l1_tokens for one in served) / tokens),
            hit_l2=_six(sum(one.l2_tokens for one in served) / tokens),
            bound=_six(bound),
            ttft_mean_s=_six(fmean(ttfts)),
            ttft_p50_s=_six(percentile(ttfts, 0.5)),
            ttft_p90_s=_six(percentile(ttfts, 0.9)),
            ttft_p99_s=_six(percentile(ttfts, 0.99)),
            goodput=_six(_good(served, slo_s) / (len(served) + outcome.errors)),
            imbalance=_six(_imbalance(queues)),
            longest_queue_tokens=_six(fmean(max(sample.tokens) for sample in queues) if queues else 0.0),
            decisions_s=_six(outcome.decisions / outcome.decide_s if outcome.decide_s else 0.0),
        )

    @property
    def hit(self) -> float:
        """Of all tiers."""
        return self.hit_l0 + self.hit_l1 + self.hit_l2

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of all figures."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def read(cls, words: Sequence[str]) -> Figures:
        """From the words of :meth:`words`. Raises ``ValueError``, ``TypeError``."""
        kinds = [int if field.type == "int" else float for field in fields(cls)]
        values: list[Any] = [kind(word) for kind, word in zip(kinds, words, strict=True)]
        return cls(*values)

    def words(self) -> list[str]:
        """In the order of :meth:`names`."""
        return [f"{getattr(self, name):.12g}" for name in self.names()]


def _good(served: Sequence[Served], slo_s: float) -> int:
    return sum(one.ttft_s <= slo_s + one.alone_s for one in served)


def _imbalance(queues: Sequence[QueueSample]) -> float:
    """An idle fleet is neither balanced nor not: its moments do not count."""
    coefficients = [pstdev(sample.tokens) / fmean(sample.tokens) for sample in queues if any(sample.tokens)]
    return fmean(coefficients) if coefficients else 0.0


def _six(value: float) -> float:
    return float(f"{value:.6g}")
