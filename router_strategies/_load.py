"""How busy a replica is, in seconds, and the least busy one: what several strategies fall back to."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from router_strategies._types import Candidate

#: Seconds that a request in flight weighs besides its promised prefill: its decoding slows what comes after it.
REQUEST_S = 0.03


def load_s(candidate: Candidate, request_s: float) -> float:
    """Seconds of prefill promised there, and ``request_s`` for each request in flight and the one that may come.

    The gateway's own counts only: what a replica has not reported makes it neither idle nor busy.
    """
    return candidate.promised_s + request_s * (candidate.inflight + 1) / candidate.speed


def least_of(candidates: Sequence[Candidate], compared: Sequence[float], random: Random) -> Candidate:
    """The candidate with the least number; of equal ones any."""
    least = min(compared)
    if compared.count(least) == 1:
        return candidates[compared.index(least)]
    return random.choice([candidate for candidate, number in zip(candidates, compared) if number == least])
