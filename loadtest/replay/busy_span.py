"""BusySpan: in what time the sessions of a closed loop must begin to keep a fleet as busy as is wanted.

Sessions go on after the last of them has begun, and at first there are few: a fleet is fully busy only between. So
what counts is how busy it is when a piece of work is done, on average over the work: the integral of the square of the
work's rate over the integral of the rate. Where sessions are short this is the work over the span.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.replay.offered_work import Portion

_PORTIONS = 50  # of each stretch of time that is looked at, on average: fewer are mere chance
_STRETCHES = 200
_HALVINGS = 14
_OVERLAP = 0.5  # of a session's length: the shortest span


class BusySpan:
    """``begins``: when each session begins, from 0 to 1; ``portions``: what they ask for, at least one."""

    def __init__(self, begins: Sequence[float], portions: Sequence[Portion]) -> None:
        self._portions = [(begins[session], after_s, work_s) for session, after_s, work_s in portions]
        self._work_s = sum(work_s for _, _, work_s in self._portions)
        self._stretches = min(_STRETCHES, max(1, len(portions) // _PORTIONS))
        ends = {session: after_s for session, after_s, _ in portions}
        self._longest_s = max(ends.values())
        self._shortest_span_s = _OVERLAP * sum(ends.values()) / len(ends)

    def seconds(self, rate: float) -> float:
        """The span for so many engine seconds a second; never so short that all sessions are young together, even
        where only that would keep the fleet so busy.
        """
        low = self._shortest_span_s
        high = max(low, self._work_s / rate)
        if self.rate(low) <= rate:
            return low
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.rate(middle) > rate else (low, middle)
        return high

    def rate(self, span_s: float) -> float:
        """Engine seconds of work a second, on average over the work, where sessions begin within ``span_s``."""
        step_s = (span_s + self._longest_s) / self._stretches
        if not step_s:
            return float("inf")
        work = [0.0] * (self._stretches + 1)
        for begins, after_s, work_s in self._portions:
            work[int((begins * span_s + after_s) / step_s)] += work_s
        return sum(one * one for one in work) / step_s / self._work_s
