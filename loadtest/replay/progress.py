"""Progress: lines for whoever waits for many runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from loadtest.replay.grid import Made


class Progress:
    """``failed`` counts. ``out``: usually standard error; ``clock``: seconds, monotonic."""

    def __init__(self, out: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.failed = 0
        self._out = out
        self._clock = clock
        self.begin(0)

    def begin(self, total: int) -> None:
        """So many runs are to be made."""
        self._total = total
        self._ended = 0
        self._began_s = self._clock()

    def ended(self, made: Made) -> None:
        """One has been made, or has failed."""
        self._ended += 1
        if made.figures is None:
            self.failed += 1
            result = f"FAILED: {made.error}"
        else:
            result = f"TTFT {made.figures.ttft_mean_s:.3f} s, hit {made.figures.hit:.1%}"
        line = f"{self._ended}/{self._total} {made.run}: {result}{self._left()}"
        print(line, file=self._out or sys.stderr, flush=True)

    def _left(self) -> str:
        left = self._total - self._ended
        seconds = (self._clock() - self._began_s) / self._ended * left
        if not left:
            return ""
        return f"; {seconds / 60:.0f} min left" if seconds >= 90 else f"; {seconds:.0f} s left"
