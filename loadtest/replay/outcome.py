"""Outcome: what came of one run, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Served(NamedTuple):
    """One request. Times are simulated seconds; tokens are of its prompt, as the replica took them, disjoint."""

    arrived_s: float
    first_token_s: float
    finished_s: float
    replica: int
    prompt_tokens: int
    output_tokens: int
    l0_tokens: int
    l1_tokens: int
    l2_tokens: int
    alone_s: float  # its prefill at an idle replica with what was cached: what no strategy could spare

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.arrived_s


class QueueSample(NamedTuple):
    """Uncached prompt tokens that wait or are computed, by replica, at one moment."""

    at_s: float
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``served`` in order of arrival; the first part of a run fills the caches: figures leave it out."""

    strategy: str
    trace: str
    seed: int
    served: Sequence[Served]
    queues: Sequence[QueueSample]
    decisions: int
    decide_s: float  # real seconds of all decisions: the one number that differs from run to run
    errors: int = 0  # requests that could be sent nowhere
