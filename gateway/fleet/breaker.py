"""Breaker: whether a server that keeps failing is left alone for a while."""

from __future__ import annotations


class Breaker:
    """Opens after ``threshold`` failures in a row; after ``open_s`` one request may probe it.

    The probe's slot frees itself: by any end of the probe, and at the latest ``open_s`` after it was taken.
    """

    def __init__(self, threshold: int = 5, open_s: float = 10.0) -> None:
        self._threshold = threshold
        self._open_s = open_s
        self._failures = 0
        self._failed_s = float("-inf")  # the last failure that counted
        self._closed_from = 0.0  # open before, half-open after
        self._probe_until = 0.0

    @property
    def is_closed(self) -> bool:
        return self._failures < self._threshold

    def allows(self, now: float) -> bool:
        """Whether a request may be sent: closed, or half-open with its probe slot free."""
        return self.is_closed or (now >= self._closed_from and now >= self._probe_until)

    def sent(self, now: float) -> None:
        """A request goes out. While half-open it takes the probe slot."""
        if not self.is_closed:
            self._probe_until = now + self._open_s

    def succeeded(self) -> None:
        self._failures = 0
        self._probe_until = 0.0

    def failed(self, now: float, sent_s: float | None = None) -> None:
        """``sent_s``: when the request was sent. What was under way together and breaks together is one failure."""
        if sent_s is not None and sent_s <= self._failed_s:
            return
        self._failed_s = now
        self._failures += 1
        self._probe_until = 0.0
        if not self.is_closed:
            self._closed_from = now + self._open_s

    def undecided(self) -> None:
        """The request ended in a way that says nothing about the server."""
        self._probe_until = 0.0

    def state(self, now: float) -> str:
        """``closed``, ``open`` or ``half_open``."""
        if self.is_closed:
            return "closed"
        return "half_open" if now >= self._closed_from else "open"
