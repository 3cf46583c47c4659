"""Sequence: one publisher's numbered batches put in order, as a pure state machine.

Rule 1: everything that decides whether a batch is applied, once, in order and to the right engine process
is in this file. Rule 2: this file does not know sockets, time or what a batch contains.

What happened goes in (a live batch, a replayed one, a connection); steps come out, to be taken in order.

Theory of operation. A publisher numbers its batches from 0, keeps the last ones and replays, on request,
those from a number on. It never says that something is missing, and never that it is a new process. So:

- A replay is asked from the last applied number, *inclusive*, and that batch must come back byte for byte (a
  batch holds its time stamp). If it differs, or nothing comes, the process is another one. If the first that
  comes is later, the history in between is lost.
- While a replay runs, live batches wait. A batch that came before the replay was asked for, and that the
  replay does not contain, was sent by a process that is gone: it is dropped.
- Without replay a gap is a loss, and a number that goes backwards a new process.

In doubt nothing is believed: under-credit, never ghost.

What was applied is an unbroken history *since* some batch, and *complete* if that is number 0: all that its process
ever published. It may have begun with somebody's :class:`SequenceState`. A sequence that begins with a state goes the
way of one that was disconnected: nothing is applied before a replay has shown the state's last batch.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from xxhash import xxh3_64_intdigest


class Apply(NamedTuple):
    """This batch is next."""

    sequence: int
    payload: bytes


class Lost(NamedTuple):
    """Batches before the next one are missing for good: nothing known before may be believed."""

    reason: str


class Restarted(NamedTuple):
    """The publisher is a new process: what follows is its history, as far as it is known."""


class Replay(NamedTuple):
    """Ask for everything from ``first`` on. Replaces a replay that is still running."""

    first: int


Step = Apply | Lost | Restarted | Replay

_NOTHING_APPLIED = -1
#: How many batches back a batch can be told from another one under its number.
REMEMBERED = 1024


class SequenceState(NamedTuple):
    """Where a sequence stands, for another to go on from: what was applied, by number and digest."""

    last: int = _NOTHING_APPLIED
    recent: tuple[int, ...] = ()  # digests of the batches up to `last`, at most REMEMBERED
    since: int | None = None  # number of the first batch of the unbroken history; None: there is none


AT_THE_BEGINNING = SequenceState()


class _Frame(NamedTuple):
    sequence: int
    payload: bytes


class Sequence:
    """``replayable``: the publisher has a replay port. ``state``: what was applied already. ``max_waiting``: live
    batches kept while a replay runs.

    ``max_failures``: how many replays may fail in a row before what came live is used without them.
    """

    def __init__(
        self,
        *,
        replayable: bool,
        state: SequenceState = AT_THE_BEGINNING,
        max_waiting: int = 8192,
        max_failures: int = 3,
    ) -> None:
        resumed = state.last != _NOTHING_APPLIED
        self.last = state.last  # number of the last applied batch
        # What published nothing then may have done so by now.
        self.since = state.since if resumed else None  # number of the first batch of the unbroken history
        self.failures = 0  # replays that failed in a row
        self.gaps = 0
        self.duplicates = 0
        self._replayable = replayable
        self._max_waiting = max_waiting
        self._max_failures = max_failures
        self._recent = deque(state.recent, maxlen=REMEMBERED)  # digests of the batches up to `last`, without a break
        self._asked: int | None = None  # first number of the running replay
        self._verified = True  # the running replay has shown the last applied batch
        self._progressed = False  # the running replay has brought something new
        self._doubted = False  # why it runs: what is known may be wrong
        self._waiting: deque[_Frame] = deque()
        self._connected_before = resumed
        self._holding = replayable  # live batches wait for a replay that was not asked for yet
        self._waited_before = 0  # how many of them came before the replay was asked for
        self._waited_unsure = 0  # how many of those came before the connection was known

    def __repr__(self) -> str:
        doing = "live" if self._asked is None else f"replaying from {self._asked}"
        return f"<Sequence at {self.last}, {doing}, {len(self._waiting)} waiting>"

    @property
    def complete(self) -> bool:
        """Whether what was applied is all that its process ever published."""
        return self.since == 0

    @property
    def replaying(self) -> bool:
        """Whether an answer to a :class:`Replay` is awaited."""
        return self._asked is not None

    @property
    def doubtful(self) -> bool:
        """Whether a replay runs that may prove what is known wrong."""
        return self._asked is not None and self._doubted

    def export(self) -> SequenceState:
        """For a sequence elsewhere. Take it when all steps given out were taken."""
        return SequenceState(self.last, tuple(self._recent), self.since)

    def unreadable(self) -> None:
        """The batch applied last could not be read: whoever uses it believes nothing from before."""
        self.since = self.last + 1

    def disconnected(self) -> None:
        """The live connection is gone, or was: whose the next batches are only a replay can tell."""
        self._holding = self._replayable

    def connected(self) -> list[Step]:
        """The live connection was made: batches may have passed, and the process may be another.

        Tell of :meth:`disconnected` first, and then of all batches that came before now.
        """
        self._holding = False
        if self._replayable:
            self._waited_unsure = len(self._waiting)
            return self._ask(doubt=True)
        first, self._connected_before = not self._connected_before, True
        return [] if first or self.last == _NOTHING_APPLIED else [self._lose("reconnected")]

    def restart_hinted(self) -> list[Step]:
        """Somebody else saw that the process is a new one."""
        if self._replayable:
            return self._ask(doubt=True)
        return [] if self.last == _NOTHING_APPLIED else self._restart()

    def quiet(self) -> list[Step]:
        """Nothing came for a while: see whether that is so."""
        if not self._replayable or self.replaying:
            return []
        return self._ask(doubt=False)

    def live(self, sequence: int, payload: bytes) -> list[Step]:
        """A batch came on the live connection."""
        frame = _Frame(sequence, payload)
        if self.replaying or self._holding:
            self._wait(frame)
            return []
        if sequence == self.last + 1:
            return [self._apply(frame)]
        if sequence <= self.last:
            return self._backwards(frame)
        return self._gap(frame)

    def replayed(self, sequence: int, payload: bytes) -> list[Step]:
        """A batch came as part of the replay."""
        if self._asked is None or sequence < self._asked:
            return []
        frame = _Frame(sequence, payload)
        if not self._verified:
            return self._verify(frame)
        if sequence <= self.last:
            return []
        if sequence == self.last + 1:
            return [self._advance(frame)]
        if self.last == _NOTHING_APPLIED:
            return [self._adopt(frame)]
        if self._progressed:
            return self._ask(doubt=self._doubted)  # a hole: batches were lost on the way, so ask again
        return [self._lose("unreplayable"), self._adopt(frame)]

    def replay_ended(self) -> list[Step]:
        """The replay is complete."""
        if self._asked is None:
            return []
        if not self._verified:
            return self._restart()
        self._asked = None
        self.failures = 0
        if self.last == _NOTHING_APPLIED:
            self.since = None if self._waiting else 0  # nothing was published yet
        return self._release()

    def replay_failed(self) -> list[Step]:
        """The replay stopped before its end. Asks again, or does without after too many failures."""
        if self._asked is None:
            return []
        self.failures = 1 if self._progressed else self.failures + 1
        if self.failures < self._max_failures:
            return self._ask(doubt=self._doubted)
        self._asked = None
        self.failures = 0
        steps: list[Step] = []
        if self._doubted and self.last != _NOTHING_APPLIED:
            steps.append(self._lose("replay_failed"))
        self._drop_waiting(self._waited_unsure)
        while self._waiting:
            steps += self._without_replay(self._waiting.popleft())
        return steps

    def _ask(self, *, doubt: bool) -> list[Step]:
        self._asked = max(self.last, 0)
        self._verified = self.last == _NOTHING_APPLIED
        self._progressed = False
        self._doubted = doubt
        self._waited_before = len(self._waiting)
        return [Replay(self._asked)]

    def _apply(self, frame: _Frame) -> Apply:
        self.last = frame.sequence
        if self.since is None:
            self.since = frame.sequence
        self._recent.append(xxh3_64_intdigest(frame.payload))
        return Apply(frame.sequence, frame.payload)

    def _advance(self, frame: _Frame) -> Apply:
        self._progressed = True
        return self._apply(frame)

    def _adopt(self, frame: _Frame) -> Apply:
        """Go on from here, whatever came before."""
        self.since = None
        self._recent.clear()
        return self._advance(frame)

    def _lose(self, reason: str) -> Lost:
        self.since = None
        return Lost(reason)

    def _known(self, frame: _Frame) -> bool | None:
        """Whether this is the batch applied under its number; ``None``: too long ago to tell."""
        offset = frame.sequence - self.last - 1
        if -offset > len(self._recent):
            return None
        return self._recent[offset] == xxh3_64_intdigest(frame.payload)

    def _wait(self, frame: _Frame) -> None:
        self._waiting.append(frame)
        if len(self._waiting) > self._max_waiting:
            self._waiting.popleft()  # it shows as a gap, and the replay brings it
            self._waited_before = max(0, self._waited_before - 1)
            self._waited_unsure = max(0, self._waited_unsure - 1)

    def _drop_waiting(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self._waited_before = self._waited_unsure = 0

    def _gap(self, frame: _Frame) -> list[Step]:
        if self.last == _NOTHING_APPLIED and not self._replayable:
            return [self._adopt(frame)]
        self.gaps += 1
        if not self._replayable:
            return [self._lose("gap"), self._adopt(frame)]
        self._wait(frame)
        return self._ask(doubt=True)

    def _backwards(self, frame: _Frame) -> list[Step]:
        known = self._known(frame)
        if known:
            self.duplicates += 1
            return []
        if not self._replayable:
            return [*self._restart(), self._adopt(frame)]
        return self._restart() if known is False else self._ask(doubt=True)

    def _restart(self) -> list[Step]:
        """Batches that wait are dropped: they are the old process's, or the replay has them."""
        self.last = _NOTHING_APPLIED
        self.since = None
        self.failures = 0
        self._recent.clear()
        self._drop_waiting(len(self._waiting))
        self._asked = None
        steps: list[Step] = [Restarted()]
        return [*steps, *self._ask(doubt=True)] if self._replayable else steps

    def _verify(self, frame: _Frame) -> list[Step]:
        """The first batch of a replay that was asked from the last applied one."""
        self._verified = True
        if frame.sequence > self.last:
            # Whose the waiting batches are cannot be told: ask anew, so that they came before it.
            return [self._lose("unreplayable"), self._adopt(frame), *self._ask(doubt=True)]
        return [] if self._known(frame) else self._restart()

    def _release(self) -> list[Step]:
        """Use what waited for the replay that has just ended."""
        steps: list[Step] = []
        self._drop_waiting(self._waited_before)  # the replay had them, or their sender is gone
        while self._waiting:
            frame = self._waiting[0]
            if frame.sequence > self.last + 1 or (frame.sequence <= self.last and not self._known(frame)):
                return steps + self._ask(doubt=True)
            self._waiting.popleft()
            if frame.sequence > self.last:
                steps.append(self._apply(frame))
            else:
                self.duplicates += 1
        return steps

    def _without_replay(self, frame: _Frame) -> list[Step]:
        """Use a batch that waited for a replay that never came."""
        if frame.sequence == self.last + 1:
            return [self._apply(frame)]
        if frame.sequence > self.last:
            lost: list[Step] = [] if self.last == _NOTHING_APPLIED else [self._lose("replay_failed")]
            return [*lost, self._adopt(frame)]
        if self._known(frame):
            return []
        self.last = _NOTHING_APPLIED
        self._recent.clear()
        return [Restarted(), self._adopt(frame)]
