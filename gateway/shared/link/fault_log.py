"""FaultLog: tells a log that something fails, and that it works again; a few lines, however often it happens."""

from __future__ import annotations

import logging
from collections.abc import Callable

_QUIET_S = 30.0


class FaultLog:
    """After a warning none follows for ``quiet_s``. What fails longer than that without having been told of is told of.

    ``failing`` begins the warning, ``working`` is the line that ends it. ``clock``: seconds, monotonic.
    """

    def __init__(
        self,
        logger: logging.Logger,
        failing: str,
        working: str,
        *,
        clock: Callable[[], float],
        quiet_s: float = _QUIET_S,
    ) -> None:
        self._logger = logger
        self._failing = failing
        self._working = working
        self._clock = clock
        self._quiet_s = quiet_s
        self._quiet_until_s = float("-inf")
        self._is_told = False

    def failed(self, why: object) -> None:
        """It failed, perhaps not for the first time. ``why`` is for people, without secrets."""
        now = self._clock()
        if not self._is_told and now >= self._quiet_until_s:
            self._is_told = True
            self._quiet_until_s = now + self._quiet_s
            self._logger.warning("%s: %s", self._failing, why)

    def works(self) -> None:
        """It worked."""
        if self._is_told:
            self._is_told = False
            self._logger.info("%s", self._working)
