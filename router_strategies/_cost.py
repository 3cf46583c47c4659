"""Seconds that a request costs a replica: the one cost model, used for every candidate under every strategy.

The formula is the small form of a policy-improvement cost: work promised, own cost, a guard for KV memory.
Units: tokens, seconds, blocks. Nothing here keeps state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_MOST_FULL = 0.98  # the guard's pole lies at 1


class Work(NamedTuple):
    """What a replica must do before a request's first token, in tokens."""

    uncached: float  # to compute
    cached: float  # found in any tier: longer attention for what is computed
    from_l1: float = 0.0  # found in host memory only: to load
    from_l2: float = 0.0  # found in shared storage only: to load


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a replica of speed 1.0 works. The defaults are priors: ``calibration`` corrects them all at once."""

    prefill_tokens_s: float = 8_000.0  # P
    doubling_tokens: float = 30_000.0  # K: context length at which attention doubles a token's cost
    step_s: float = 0.012  # t0: base time of one engine step
    l1_tokens_s: float = 120_000.0  # R1
    l2_tokens_s: float = 34_000.0  # R2
    l2_fixed_s: float = 0.1  # F2: until the first token from shared storage is there
    l2_least_tokens: float = 1_000.0  # fewer are not worth the way: no estimate of L2 counts for them
    decoding_s: float = 0.0002  # d: what each sequence adds that decodes there meanwhile
    calibration: float = 1.0  # c: actual over predicted seconds


def prefill_seconds(work: Work, rates: Rates, speed: float = 1.0, decoding: int = 0) -> float:
    """x: ``c * [u/P * (1 + (h + u/2)/K) + t0 + n1/R1 + n2/R2 + d*decoding] / speed``, and F2 where anything comes from
    L2. ``decoding``: sequences past their first token.
    """
    uncached, cached, from_l1, from_l2 = work
    attention = 1.0 + (cached + uncached / 2) / rates.doubling_tokens
    seconds = (
        uncached / rates.prefill_tokens_s * attention
        + rates.step_s
        + rates.decoding_s * decoding
        + from_l1 / rates.l1_tokens_s
        + (rates.l2_fixed_s + from_l2 / rates.l2_tokens_s if from_l2 else 0.0)
    )
    return rates.calibration * seconds / speed


def promised_seconds(pending_s: float, oldest_s: float, oldest_age_s: float) -> float:
    """W: promised seconds less what the oldest promise has surely worked off.

    ``pending_s``: sum of x over requests without a first token. ``oldest_s``: x of the oldest of them.
    ``oldest_age_s``: seconds since it could have been started: its dispatch or the last first token, the later.
    """
    return max(0.0, pending_s - min(oldest_age_s, 0.95 * oldest_s))


def memory_guard_seconds(used: float, needed: float, capacity: float, decode_s: float) -> float:
    """M: what crowding the KV memory costs: ``2*T*max(0, used+need-cap)/cap + T*(need/cap)*f^4/(1-f)``.

    Blocks, and ``decode_s`` the mean seconds a request decodes. 0 where the capacity is unknown (0).
    """
    if capacity <= 0:
        return 0.0
    full = min(used / capacity, _MOST_FULL)
    over = used + needed - capacity
    overflow_s = 2 * decode_s * over / capacity if over > 0 else 0.0
    return overflow_s + decode_s * (needed / capacity) * full**4 / (1 - full)
