"""Breaker: whether a server that keeps failing is left alone for a while."""

from __future__ import annotations

_NEVER = float("-inf")


class Breaker:
    """Opens after ``threshold`` failures in a row; after ``open_s`` one request may probe it. Only a success closes it.

    The probe's slot frees itself: by any end of the probe, and at the latest ``open_s`` after it was taken.
    """

    __slots__ = ("_closed_from_s", "_failed_s", "_failures", "_open_s", "_probe_s", "_threshold", "is_closed")

    def __init__(self, threshold: int = 5, open_s: float = 10.0) -> None:
        self.is_closed = True
        self._threshold = threshold
        self._open_s = open_s
        self._failures = 0
        self._failed_s = _NEVER  # the last failure that counted
        self._closed_from_s = 0.0  # open before, half-open after
        self._probe_s = _NEVER  # when the probe that holds the slot was sent

    def __repr__(self) -> str:
        return f"<Breaker {'closed' if self.is_closed else 'open'}, {self._failures} failures>"

    def allows(self, now: float) -> bool:
        """Whether a request may be sent: closed, or half-open with its probe slot free."""
        return self.is_closed or (now >= self._closed_from_s and now >= self._probe_s + self._open_s)

    def sent(self, now: float) -> None:
        """A request goes out. While half-open it takes the probe slot, which merely to be considered does not."""
        if not self.is_closed and now >= self._closed_from_s:
            self._probe_s = now

    def succeeded(self) -> None:
        self._failures = 0
        self._probe_s = _NEVER
        self.is_closed = True

    def failed(self, now: float, sent_s: float | None = None) -> None:
        """``sent_s``: when the request was sent. What was under way together and breaks together is one failure."""
        if sent_s is not None and sent_s <= self._failed_s:
            return
        self._failures += 1
        self._failed_s = now
        if self._failures >= self._threshold:
            self._open(now)

    def trip(self, now: float) -> None:
        """Open at once, whatever went before."""
        self._failures = max(self._failures, self._threshold)
        self._failed_s = now
        self._open(now)

    def undecided(self, sent_s: float) -> None:
        """A request that was sent at ``sent_s`` ended in a way that says nothing about the server."""
        if sent_s >= self._probe_s:  # else it went before the probe, which holds its slot still
            self._probe_s = _NEVER

    def state(self, now: float) -> str:
        """``closed``, ``open`` or ``half_open``."""
        if self.is_closed:
            return "closed"
        return "half_open" if now >= self._closed_from_s else "open"

    def _open(self, now: float) -> None:
        self.is_closed = False
        self._closed_from_s = now + self._open_s
        self._probe_s = _NEVER
