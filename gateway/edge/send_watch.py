"""SendWatch: whether a client takes what is written to it. Pure; its owner ticks."""

from __future__ import annotations


class SendWatch:
    """``quiet_ticks``: for how many ticks in a row bytes waited, of which the client took none."""

    __slots__ = ("_taken_bytes", "quiet_ticks")

    def __init__(self) -> None:
        self.quiet_ticks = 0
        self._taken_bytes = 0

    def tick(self, unsent_bytes: int, written_bytes: int) -> None:
        """``unsent_bytes``: wait in the transport; ``written_bytes``: of the answer that is being written.

        What waits may grow though the client reads, so that is set against what is written. That heads and frames are
        not counted there makes a reader look a little slower; any pause in the writing shows it again.
        """
        taken_bytes = written_bytes - unsent_bytes
        if unsent_bytes and taken_bytes <= self._taken_bytes:
            self.quiet_ticks += 1
        else:
            self.quiet_ticks = 0
        self._taken_bytes = taken_bytes
