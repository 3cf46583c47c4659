"""History: which of a publisher's batches were applied: an unbroken run of them, and where it began. Pure state."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

NOTHING_APPLIED = -1
#: How many batches back a batch can be told from another one under its number.
REMEMBERED = 1024


class Frame(NamedTuple):
    """A batch, as its publisher numbered it."""

    sequence: int
    payload: bytes


class SequenceState(NamedTuple):
    """Where a sequence stands, for another to go on from: what was applied, by number and digest."""

    last: int = NOTHING_APPLIED
    recent: tuple[int, ...] = ()  # digests of the batches up to `last`, at most REMEMBERED
    since: int | None = None  # number of the first batch of the unbroken history; None: there is none


AT_THE_BEGINNING = SequenceState()


class History:
    """Begins with what ``state`` says was applied."""

    __slots__ = ("_recent", "last", "since")

    def __init__(self, state: SequenceState = AT_THE_BEGINNING) -> None:
        self.last = state.last  # number of the batch applied last
        # What had published nothing then may have done so by now.
        self.since = None if self.is_empty else state.since  # number of the first batch of the unbroken history
        self._recent = deque(state.recent, maxlen=REMEMBERED)  # digests of the batches up to `last`, without a break

    def __repr__(self) -> str:
        return f"<History {self.since} to {self.last}>"

    @property
    def is_empty(self) -> bool:
        """Whether nothing was applied."""
        return self.last == NOTHING_APPLIED

    def add(self, frame: Frame) -> None:
        """A batch is applied: the next one, or the first after a break."""
        self.last = frame.sequence
        if self.since is None:
            self.since = frame.sequence
        self._recent.append(xxh3_64_intdigest(frame.payload))

    def knows(self, frame: Frame) -> bool | None:
        """Whether this is the batch applied under its number, not a later one than the last; ``None``: too long ago."""
        offset = frame.sequence - self.last - 1
        if -offset > len(self._recent):
            return None
        return self._recent[offset] == xxh3_64_intdigest(frame.payload)

    def break_off(self) -> None:
        """The next batch added is not the one after the last."""
        self.since = None
        self._recent.clear()

    def forget(self) -> None:
        """Nothing was applied."""
        self.break_off()
        self.last = NOTHING_APPLIED

    def export(self) -> SequenceState:
        """A copy."""
        return SequenceState(self.last, tuple(self._recent), self.since)
