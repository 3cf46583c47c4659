"""WaitingBatches: live batches that came while a replay runs, in the order they came. Pure state."""

from __future__ import annotations

from collections import deque
from itertools import islice

from gateway.kv.history import Frame


class WaitingBatches:
    """At most ``most``: then the oldest is dropped, which shows as a gap, and the replay brings it."""

    __slots__ = ("_before", "_frames", "_most", "_unsure")

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames: deque[Frame] = deque()
        self._before = 0  # how many of them came before the replay was asked for
        self._unsure = 0  # how many of those came before the connection was known

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"<WaitingBatches {len(self)}, {self._before} before the replay>"

    @property
    def first(self) -> Frame:
        """The one that came first. Raises ``IndexError`` where none waits."""
        return self._frames[0]

    def add(self, frame: Frame) -> None:
        """One more came."""
        self._frames.append(frame)
        if len(self._frames) > self._most:
            self.take()

    def take(self) -> Frame:
        """The one that came first waits no more."""
        self._before = max(0, self._before - 1)
        self._unsure = max(0, self._unsure - 1)
        return self._frames.popleft()

    def take_all(self) -> list[Frame]:
        """None waits any more."""
        frames = list(self._frames)
        self._drop(len(frames))
        return frames

    def connection_known(self) -> None:
        """Whose all that came until now are cannot be told: the connection is known only now."""
        self._unsure = len(self._frames)

    def replay_asked(self) -> None:
        """What came until now a replay that was asked for now must contain, or another process sent it."""
        self._before = len(self._frames)

    def drop_unsure(self) -> None:
        """Drop those that came before the connection was known."""
        self._drop(self._unsure)

    def drop_before_replay(self) -> None:
        """Drop those that came before the replay was asked for."""
        self._drop(self._before)

    def any_before_replay_after(self, last: int) -> bool:
        """Whether one that came before the replay was asked for has a later number than ``last``."""
        return any(frame.sequence > last for frame in islice(self._frames, self._before))

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._frames.popleft()
        self._before = self._unsure = 0
