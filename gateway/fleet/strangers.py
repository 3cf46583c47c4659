"""Strangers: requests at a replica that this process neither sent nor was told of, as the replica's own report shows.

Another gateway that shares nothing with us, or a client that goes around us. What is known of ours is exact and of
this moment, so a report only counts for what it has beyond that, and as old as it is.
"""

from __future__ import annotations

from typing import NamedTuple, Self

_MOST = 1e6  # requests at one replica: nobody has as many
_REPORTS = 4  # in an interval, of a server that strangers use
_LEAST_PAUSE_S = 0.25  # between two of them, unless the interval is shorter


class Strangers(NamedTuple):
    """How many requests are past their first token, about, and how many wait for it: an estimate that need not be
    whole.
    """

    decoding: int
    waiting: float

    @classmethod
    def of(cls, waiting: float | None, running: float | None, known: int) -> Self | None:
        """``waiting``, ``running``: as reported. ``known``: requests we know to be there. ``None``: no strangers.

        All that wait are taken to be alike: strangers' part of those is their part of all. What cannot be is not
        believed.
        """
        if waiting is None or running is None or not (0 <= waiting <= _MOST and 0 <= running <= _MOST):
            return None
        reported = waiting + running
        strange = reported - known
        return cls(round(running * strange / reported), waiting * strange / reported) if strange > 0 else None


def reports_in(interval_s: float) -> int:
    """How often a server that strangers use is asked for its load in the time between two rounds of probes."""
    return max(1, min(_REPORTS, int(interval_s / _LEAST_PAUSE_S)))
