"""Silence: how long a server has kept requests waiting and sent no byte of a body to anybody.

Synchronous state; every method takes ``now`` in seconds of a monotonic clock.
"""

from __future__ import annotations

_MOST_EXCUSED_S = 600.0


class Silence:
    """Counts only time in which a request of ours waits for its first body byte.

    It grows over requests that leave one after another without a byte, so that clients who are quicker to give up
    than the server is to be called stalled are no cover for it. The wait of one that was answered, however that was
    and however long it took, is no silence. Any byte to anybody ends it.
    """

    __slots__ = ("_before_s", "_counted_s", "_excused_s", "_heard_s", "_oldest_s", "_sent", "waiting")

    def __init__(self) -> None:
        self.waiting = 0  # requests of ours without a byte
        self._sent: dict[float, int] = {}  # when, in order, and how many at that moment
        self._oldest_s = 0.0  # the first of these
        self._heard_s = 0.0  # when the last byte came
        self._before_s = 0.0  # of this silence, of those that left
        self._counted_s = 0.0  # until when that counts
        self._excused_s = 0.0

    def __repr__(self) -> str:
        return f"<Silence waiting={self.waiting} before={self._before_s:.1f}s>"

    def sent(self, now: float) -> None:
        """One more request waits."""
        if not self.waiting:
            self._oldest_s = now
        self.waiting += 1
        self._sent[now] = self._sent.get(now, 0) + 1

    def answered(self, sent_s: float) -> None:
        """The request that was sent at ``sent_s`` waits no more."""
        self.waiting -= 1
        others = self._sent[sent_s] - 1
        if others:
            self._sent[sent_s] = others
            return
        del self._sent[sent_s]
        if sent_s == self._oldest_s and self.waiting:
            self._oldest_s = next(iter(self._sent))

    def left(self, sent_s: float, now: float) -> None:
        """The request that was sent at ``sent_s`` waits no more, and never got an answer."""
        self._before_s = self._with(sent_s, now)
        self._counted_s = now
        self.answered(sent_s)

    def heard(self, now: float) -> None:
        """A byte of a body came, for whomever."""
        self._excused_s = 0.0
        self._begin(now)

    def excused(self, now: float) -> None:
        """Its own counters say that it works: a plain answer is sent only when it is whole, which may take long.

        Not believed for ever: what it makes may never arrive.
        """
        seconds = self.seconds(now)
        if self._excused_s + seconds <= _MOST_EXCUSED_S:
            self._excused_s += seconds
            self._begin(now)

    def seconds(self, now: float) -> float:
        return self._with(self._oldest_s, now) if self.waiting else self._before_s

    def _with(self, sent_s: float, now: float) -> float:
        """The silence, if the wait since ``sent_s`` belongs to it. What was counted already is not counted twice."""
        return max(now - max(sent_s, self._heard_s), self._before_s + now - max(sent_s, self._counted_s))

    def _begin(self, now: float) -> None:
        self._before_s = 0.0
        self._heard_s = self._counted_s = now
