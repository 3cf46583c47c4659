"""LinkBreaker: whether requests ask Redis at all. While it is open none of them waits.

It opens for one of two reasons, and what closes it differs:

- *unanswered*: several things in a row had no answer at all. Any answer closes it: Redis is there again. The heartbeat
  asks all the time, so no request has to try.
- *late*: several lookups in a row took longer than a request may wait. Only a lookup that is in time closes it; some
  are sent while it is open, also where no request comes, and nobody waits for them. That Redis answers a heartbeat
  quickly says nothing of lookups, which cost it more: closing for that would make three requests wait in vain again
  and again.
"""

from __future__ import annotations


class LinkBreaker:
    """``threshold``: so many in a row open it."""

    def __init__(self, threshold: int = 3) -> None:
        self._threshold = threshold
        self._unanswered = 0
        self._late = 0

    @property
    def is_closed(self) -> bool:
        return self._unanswered < self._threshold and self._late < self._threshold

    def answered(self) -> None:
        """Something was answered, in whatever time."""
        if self._unanswered >= self._threshold:
            self._late = 0  # lookups were late because nothing was answered
        self._unanswered = 0

    def unanswered(self) -> None:
        """Something was not answered at all."""
        self._unanswered += 1

    def in_time(self) -> None:
        """A lookup was answered within the budget."""
        self._unanswered = self._late = 0

    def late(self) -> None:
        """A lookup was not answered within the budget."""
        self._late += 1
