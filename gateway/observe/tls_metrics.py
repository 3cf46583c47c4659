"""TlsMetrics: the certificate that clients are shown, at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class TlsMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(self, stale: Callable[[], bool], expires_s: Callable[[], float | None]) -> None:
        """``stale``: whether the files cannot be used now, and the pair is that from before. ``expires_s``: in Unix
        time; ``None``: not known.
        """
        self._stale = stale
        self._expires_s = expires_s

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "prefixway_tls_stale",
            "1: the TLS files cannot be used, and the pair from before is in force",
            value=self._stale(),
        )
        expires_s = self._expires_s()
        if expires_s is not None:
            yield GaugeMetricFamily(
                "prefixway_tls_expires_seconds",
                "Unix time at which the certificate in force expires",
                value=expires_s,
            )
