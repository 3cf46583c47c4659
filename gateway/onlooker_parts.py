"""Who looks on as replicas are chosen, as the settings want it: shadows, and who records it for the decision log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client.registry import Collector

import router_strategies
from gateway.observe.decision_log import DecisionLog
from gateway.observe.line_writer import LineWriter
from gateway.observe.rotating_file import RotatingFile
from gateway.observe.shadow_metrics import ShadowMetrics
from gateway.router.exchange import Exchange
from gateway.router.onlookers import Onlookers
from gateway.router.recorder import Recorder
from gateway.router.shadow import Shadows
from gateway.settings import Settings

_LOGGER = logging.getLogger(__name__)
_REST_S = 0.2
_MOST_QUEUED = 4_000  # lines: 60 MB while the disk is stuck, with 64 replicas and long prompts


class OnlookerParts:
    """``onlookers``: for the router to show its choices to; ``None``: nobody looks. ``observers`` are told of each
    exchange at its end.

    ``secret`` keys what stands in the log for prompts and sessions. Close it when nothing runs any more.
    """

    def __init__(self, settings: Settings, secret: Callable[[], bytes], wall_clock: Callable[[], float]) -> None:
        self.collectors: list[Collector] = []
        self.observers: list[Callable[[Exchange], None]] = []
        self.onlookers: Onlookers | None = None
        self._metrics = ShadowMetrics(settings.shadow)
        self._file: RotatingFile | None = None
        self._lines: LineWriter | None = None
        shadows = recorder = None
        if settings.shadow:
            shadows = Shadows(shadow_strategies(settings), self._metrics)
            self.collectors.append(self._metrics)
        if settings.decision_log is not None:
            recorder = Recorder(secret)
            self._open(settings.decision_log, int(settings.decision_log_mb * 1e6), wall_clock)
        if shadows is not None or recorder is not None:
            self.onlookers = Onlookers(shadows, recorder)

    def status(self) -> Sequence[object]:
        """What shadows would have done, for /status."""
        return self._metrics.status()

    def close(self) -> None:
        """No line after this one."""
        if self._lines is not None and self._file is not None and self._lines.close():
            self._file.close()

    def _open(self, path: Path, most_bytes: int, wall_clock: Callable[[], float]) -> None:
        self._file = RotatingFile(path, most_bytes)
        try:
            self._file.open()
        except OSError as error:
            _complain(error)
            complain = None  # once will do
        else:
            complain = _complain
        self._lines = LineWriter(self._file, most_queued=_MOST_QUEUED, rest_s=_REST_S, on_broken=complain)
        log = DecisionLog(self._lines.write, wall_clock, self._lost)
        self.collectors.append(log)
        self.observers.append(log.observe)

    def _lost(self) -> int:
        unwritten = self._lines.dropped if self._lines is not None else 0
        return unwritten + (self.onlookers.unrecorded if self.onlookers is not None else 0)


def shadow_strategies(settings: Settings) -> dict[str, router_strategies.Strategy]:
    """Instances of their own: the configured one with its options, the others with their defaults."""
    return {
        name: router_strategies.load(name, settings.strategy_options if name == settings.strategy else None)
        for name in settings.shadow
    }


def _complain(error: Exception) -> None:
    _LOGGER.warning("the decision log cannot be written; lines are lost and counted: %s", error)
