"""RecentWork: what replicas were given within a window of time: seconds of prefill, and how often each block."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import repeat


class RecentWork:
    """Replicas are numbers; ``window_s`` in seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._given: deque[tuple[float, int, float, Sequence[int]]] = deque()  # when, to whom, seconds, blocks
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._uses: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def give(self, number: int, seconds: float, blocks: Sequence[int], now: float) -> None:
        """A replica gets a prompt that takes it ``seconds``."""
        self._given.append((now, number, seconds, blocks))
        self._seconds[number] += seconds
        uses = self._uses[number]
        for block in blocks:
            uses[block] = uses.get(block, 0) + 1

    def move_to(self, now: float) -> None:
        """Leave out what was before the window."""
        while self._given and self._given[0][0] < now - self._window_s:
            _, number, seconds, blocks = self._given.popleft()
            self._take_back(number, seconds, blocks)

    def seconds(self, number: int) -> float:
        """Of prefill that a replica was given."""
        return self._seconds.get(number, 0.0)

    def hit_rate(self, number: int, blocks: Iterable[int]) -> float:
        """Of the requests of all: how many used one of ``blocks`` at this replica, the sum over the blocks."""
        if number not in self._uses or not self._given:
            return 0.0
        return sum(map(self._uses[number].get, blocks, repeat(0))) / len(self._given)

    def forget(self, number: int) -> None:
        """The replica is gone."""
        self._given = deque(item for item in self._given if item[1] != number)
        self._seconds.pop(number, None)
        self._uses.pop(number, None)

    def _take_back(self, number: int, seconds: float, blocks: Sequence[int]) -> None:
        self._seconds[number] = max(0.0, self._seconds[number] - seconds)
        uses = self._uses[number]
        for block in blocks:
            uses[block] -= 1
            if not uses[block]:
                del uses[block]
