"""Who is told of each exchange at its end, as the settings want it: metrics, logs, the watch over resets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from gateway.fleet.load_report import RESETTING
from gateway.fleet.replica_pool import ReplicaPool
from gateway.observe.access_log import AccessLog
from gateway.observe.line_writer import LineWriter
from gateway.observe.request_metrics import RequestMetrics
from gateway.onlooker_parts import OnlookerParts
from gateway.router.exchange import Exchange
from gateway.router.reset_watch import ResetWatch
from gateway.settings import Settings

_LOGGER = logging.getLogger(__name__)
_ACCESS_LOG_REST_S = 0.2


class ObserverParts:
    """``requests`` are the metrics; ``onlooking``: who also looks on as replicas are chosen.

    ``shared``: other processes write to the same standard output. ``secret``: of the block hashes. Close it when
    nothing runs any more.
    """

    def __init__(
        self,
        settings: Settings,
        pool: ReplicaPool,
        registry: CollectorRegistry,
        *,
        shared: bool,
        secret: Callable[[], bytes],
        wall_clock: Callable[[], float],
    ) -> None:
        self.requests = RequestMetrics(registry, pool.names.knows)
        self._lines = access_lines(shared=shared) if settings.access_log else None
        self._all: list[Callable[[Exchange], None]] = [self.requests.observe]
        if self._lines is not None:
            self._all.append(AccessLog(self._lines.write, wall_clock).observe)
        if RESETTING.intersection(settings.allow_routes):
            self._all.append(ResetWatch(pool).observe)
        self.onlooking = OnlookerParts(settings, secret, wall_clock)
        self._all += self.onlooking.observers
        for collector in self.onlooking.collectors:
            registry.register(collector)

    def observe(self, exchange: Exchange) -> None:
        """Tell them all."""
        for observe in self._all:
            observe(exchange)

    @property
    def lines_dropped(self) -> int:
        """Lines of the access log that nobody took."""
        return self._lines.dropped if self._lines is not None else 0

    def close(self) -> None:
        """No line after this one."""
        if self._lines is not None:
            self._lines.close()
        self.onlooking.close()


def access_lines(*, shared: bool) -> LineWriter:
    """To standard output."""
    return LineWriter(
        sys.stdout,
        shared=shared,
        most_queued=50_000,
        rest_s=_ACCESS_LOG_REST_S,
        on_broken=lambda error: _LOGGER.warning("the access log cannot be written to standard output: %s", error),
    )
