"""Counts of two are added, each kind in its way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.kv.counted import Counted


@dataclass(slots=True)
class Seen(Counted):
    requests: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)


def test_numbers_and_counters_are_added_and_the_other_stays() -> None:
    """By reason, where there are reasons."""
    seen, more = Seen(1.5, Counter(a=1)), Seen(2, Counter(a=2, b=1))
    seen.add(more)

    assert seen == Seen(3.5, Counter(a=3, b=1))
    assert more == Seen(2, Counter(a=2, b=1))
