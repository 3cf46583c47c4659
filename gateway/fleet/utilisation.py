"""Utilisation: how busy prefill keeps the fleet."""

from __future__ import annotations

from math import exp


class Utilisation:
    """Prefill seconds dispatched per second, forgotten over ``window_s``."""

    def __init__(self, window_s: float = 60.0) -> None:
        self._window_s = window_s
        self._sum_s = 0.0
        self._seen_s = 0.0

    def dispatched(self, prefill_s: float, now: float) -> None:
        self._decay(now)
        self._sum_s += prefill_s

    def per_replica(self, replicas: int, now: float) -> float:
        """0..1: the mean share of its time that a replica spends on prefill."""
        self._decay(now)
        return min(1.0, self._sum_s / self._window_s / max(1, replicas))

    def _decay(self, now: float) -> None:
        self._sum_s *= exp(-max(0.0, now - self._seen_s) / self._window_s)
        self._seen_s = now
