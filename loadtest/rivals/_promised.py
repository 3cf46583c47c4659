"""PromisedWork: seconds of prefill that were sent to each replica and are not done yet.

A replica computes prompts in the order in which they come. A rival is told how many of its requests have no first token
yet (:class:`View`), so whatever it sent beyond that is done, the oldest first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from loadtest.rivals._types import View


@dataclass(slots=True, eq=False)
class _Queue:
    waiting: deque[float] = field(default_factory=deque)  # seconds each, the oldest first
    total_s: float = 0.0
    began_s: float = 0.0  # when the oldest began to be computed, as far as one can tell


class PromisedWork:
    """Of one gateway. Times are its clock's seconds."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def seconds(self, view: View, now: float) -> float:
        """What the replica has yet to compute before it begins with something new."""
        queue = self._queues.get(view.number)
        if queue is None:
            return 0.0
        self._drop_done(queue, view.pending, now)
        if not queue.waiting:
            return 0.0
        return queue.total_s - min(now - queue.began_s, queue.waiting[0])

    def add(self, view: View, seconds: float, now: float) -> None:
        """A request of so many seconds goes there."""
        queue = self._queues.setdefault(view.number, _Queue())
        self._drop_done(queue, view.pending, now)
        if not queue.waiting:
            queue.began_s = now
        queue.waiting.append(seconds)
        queue.total_s += seconds

    def forget(self, number: int) -> None:
        """The replica is gone."""
        self._queues.pop(number, None)

    @staticmethod
    def _drop_done(queue: _Queue, pending: int, now: float) -> None:
        if len(queue.waiting) <= pending:
            return
        while len(queue.waiting) > pending:
            queue.total_s -= queue.waiting.popleft()
        queue.began_s = now
        if not queue.waiting:
            queue.total_s = 0.0  # nothing is left of rounding errors
