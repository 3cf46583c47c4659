"""Utilisation: how busy prefill keeps the fleet."""

from __future__ import annotations

from math import exp

_LEAST_AGE_S = 5.0  # before that a single request would look like a full fleet


class Utilisation:
    """Prefill seconds dispatched per second, forgotten over ``window_s``."""

    def __init__(self, window_s: float = 60.0) -> None:
        self._window_s = window_s
        self._sum_s = 0.0
        self._seen_s = 0.0
        self._began_s: float | None = None

    def dispatched(self, prefill_s: float, now: float) -> None:
        if self._began_s is None:
            self._began_s = now
        self._decay(now)
        self._sum_s += prefill_s

    def per_replica(self, replicas: int, now: float) -> float:
        """0..1: the mean share of its time that a replica spends on prefill."""
        if self._began_s is None:
            return 0.0
        self._decay(now)
        age_s = max(_LEAST_AGE_S, now - self._began_s)
        covered_s = self._window_s * (1 - exp(-age_s / self._window_s))
        return min(1.0, self._sum_s / covered_s / max(1, replicas))

    def _decay(self, now: float) -> None:
        if now != self._seen_s:
            self._sum_s *= exp(-max(0.0, now - self._seen_s) / self._window_s)
            self._seen_s = now
