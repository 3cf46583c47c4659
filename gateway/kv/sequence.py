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
- A replay that shows the last applied batch, and again and again lacks what came live before it was asked for, is
  stale: another process's, or frozen. What came live is then used without it, as where replays failed.
- Without replay a gap is a loss, and a number that goes backwards a new process.
- Where replays failed, what came live is used without them. What was missed may be had still: a look at what a replay
  begins with, later, holds up nothing; if it begins before what is known, all is read again.

In doubt nothing is believed: under-credit, never ghost.

What was applied is an unbroken history *since* some batch, and *complete* if that is number 0: all that its process
ever published. It may have begun with somebody's :class:`SequenceState`. A sequence that begins with a state goes the
way of one that was disconnected: nothing is applied before a replay has shown the state's last batch.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.kv.history import AT_THE_BEGINNING, Frame, History, SequenceState
from gateway.kv.waiting_batches import WaitingBatches


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
        self._history = History(state)
        self.failures = 0  # replays that failed in a row
        self.gaps = 0
        self.duplicates = 0
        self._replayable = replayable
        self._max_failures = max_failures
        self._asked: int | None = None  # first number of the running replay
        self._verified = True  # the running replay has shown the last applied batch
        self._progressed = False  # the running replay has brought something new
        self._stale = 0  # replays in a row that brought nothing, though something had come live
        self._doubted = False  # why it runs: what is known may be wrong
        self._looking = False  # a replay runs only to see what it begins with
        self._reached_back = not replayable  # what is known begins with the oldest batch that could be had
        self._waiting = WaitingBatches(max_waiting)
        self._connected_before = not self._history.is_empty
        self._holding = replayable  # live batches wait for a replay that was not asked for yet

    def __repr__(self) -> str:
        doing = "live" if self._asked is None else f"replaying from {self._asked}"
        return f"<Sequence at {self.last}, {doing}, {len(self._waiting)} waiting>"

    @property
    def last(self) -> int:
        """Number of the batch applied last; -1: none was."""
        return self._history.last

    @property
    def since(self) -> int | None:
        """Number of the first batch of the unbroken history; ``None``: there is none."""
        return self._history.since

    @property
    def complete(self) -> bool:
        """Whether what was applied is all that its process ever published."""
        return self.since == 0

    @property
    def replaying(self) -> bool:
        """Whether an answer to a :class:`Replay` is awaited."""
        return self._asked is not None

    @property
    def awaits_replay(self) -> bool:
        """Whether what a replay says is of interest."""
        return self.replaying or self._looking

    @property
    def recoverable(self) -> bool:
        """Whether the publisher may still have batches from before what is known, and nobody is asking for them."""
        return not (self._reached_back or self.awaits_replay) and bool(self.since)

    @property
    def doubtful(self) -> bool:
        """Whether a replay runs that may prove what is known wrong."""
        return self._asked is not None and self._doubted

    def export(self) -> SequenceState:
        """For a sequence elsewhere. Take it when all steps given out were taken."""
        return self._history.export()

    def unreadable(self) -> None:
        """The batch applied last could not be read: whoever uses it believes nothing from before."""
        self._history.since = self.last + 1
        self._reached_back = True  # read again, it would be no better

    def disconnected(self) -> None:
        """The live connection is gone, or was: whose the next batches are only a replay can tell."""
        self._holding = self._replayable

    def connected(self) -> list[Step]:
        """The live connection was made: batches may have passed, and the process may be another.

        Tell of :meth:`disconnected` first, and then of all batches that came before now.
        """
        self._holding = False
        if self._replayable:
            self._waiting.connection_known()
            return self._ask(doubt=True)
        first, self._connected_before = not self._connected_before, True
        return [] if first or self._history.is_empty else [self._lose("reconnected")]

    def restart_hinted(self) -> list[Step]:
        """Somebody else saw that the process is a new one."""
        if self._replayable:
            return self._ask(doubt=True)
        return [] if self._history.is_empty else self._restart()

    def quiet(self) -> list[Step]:
        """Nothing came for a while: see whether that is so."""
        if not self._replayable or self.replaying:
            return []
        return self._ask(doubt=False)

    def recover(self) -> list[Step]:
        """See whether more can be had than is known; nothing where it cannot. Live batches go on meanwhile."""
        if not self.recoverable:
            return []
        self._looking = True
        return [Replay(0)]

    def live(self, sequence: int, payload: bytes) -> list[Step]:
        """A batch came on the live connection."""
        frame = Frame(sequence, payload)
        if self.replaying or self._holding:
            self._waiting.add(frame)
            return []
        if sequence == self.last + 1:
            return [self._apply(frame)]
        if sequence <= self.last:
            return self._backwards(frame)
        return self._gap(frame)

    def replayed(self, sequence: int, payload: bytes) -> list[Step]:
        """A batch came as part of the replay."""
        if self._looking:
            return self._look(sequence)
        if self._asked is None or sequence < self._asked:
            return []
        frame = Frame(sequence, payload)
        if not self._verified:
            return self._verify(frame)
        if sequence <= self.last:
            return []
        if sequence == self.last + 1:
            return [self._advance(frame)]
        if self._history.is_empty:
            return [self._adopt_oldest(frame)]
        if self._progressed:
            return self._ask(doubt=self._doubted)  # a hole: batches were lost on the way, so ask again
        return [self._lose("unreplayable"), self._adopt_oldest(frame)]

    def replay_ended(self) -> list[Step]:
        """The replay is complete."""
        if self._looking:
            return self._ask(doubt=True)  # nothing at all: that is another process, or was cut short
        if self._asked is None:
            return []
        if not self._verified:
            return self._restart()
        self._asked = None
        self.failures = 0
        if self._history.is_empty:
            self._history.since = None if self._waiting else 0  # nothing was published yet
        return self._release()

    def replay_failed(self) -> list[Step]:
        """The replay stopped before its end. Asks again, or does without after too many failures."""
        self._looking = False
        if self._asked is None:
            return []
        self.failures = 1 if self._progressed else self.failures + 1
        if self.failures < self._max_failures:
            return self._ask(doubt=self._doubted)
        self._asked = None
        self.failures = 0
        steps: list[Step] = []
        if self._doubted and not self._history.is_empty:
            steps.append(self._lose("replay_failed"))
        return steps + self._release_without_replay()

    def _release_without_replay(self) -> list[Step]:
        """Use what waited for a replay that is of no use."""
        steps: list[Step] = []
        self._waiting.drop_unsure()
        while self._waiting:
            steps += self._without_replay(self._waiting.take())
        return steps

    def _is_stale(self) -> bool:
        """Whether the replay that has just ended is one too many that lacks what had come before it."""
        lacks = self._waiting.any_before_replay_after(self.last)
        self._stale = self._stale + 1 if lacks and not self._progressed else 0
        if self._stale < self._max_failures:
            return False
        self._stale = 0
        return True

    def _ask(self, *, doubt: bool) -> list[Step]:
        self._looking = False
        self._asked = max(self.last, 0)
        self._verified = self._history.is_empty
        self._progressed = False
        self._doubted = doubt
        self._waiting.replay_asked()
        return [Replay(self._asked)]

    def _apply(self, frame: Frame) -> Apply:
        self._history.add(frame)
        return Apply(frame.sequence, frame.payload)

    def _advance(self, frame: Frame) -> Apply:
        self._progressed = True
        return self._apply(frame)

    def _adopt(self, frame: Frame) -> Apply:
        """Go on from here, whatever came before."""
        self._history.break_off()
        self._reached_back = not self._replayable
        return self._advance(frame)

    def _adopt_oldest(self, frame: Frame) -> Apply:
        """Go on from the oldest batch that the publisher still has."""
        adopted = self._adopt(frame)
        self._reached_back = True
        return adopted

    def _look(self, first: int) -> list[Step]:
        """A replay that was asked from number 0 begins with ``first``. Read all again if that is more than is known."""
        self._looking = False
        if self._holding:
            return []  # whose it is will be seen first
        self._reached_back = True
        if self.since is None or first >= self.since:
            return []
        self._history.forget()
        return [self._lose("read_again"), *self._ask(doubt=True)]

    def _lose(self, reason: str) -> Lost:
        self._history.since = None
        return Lost(reason)

    def _gap(self, frame: Frame) -> list[Step]:
        if self._history.is_empty and not self._replayable:
            return [self._adopt(frame)]
        self.gaps += 1
        if not self._replayable:
            return [self._lose("gap"), self._adopt(frame)]
        self._waiting.add(frame)
        return self._ask(doubt=True)

    def _backwards(self, frame: Frame) -> list[Step]:
        known = self._history.knows(frame)
        if known:
            self.duplicates += 1
            return []
        if not self._replayable:
            return [*self._restart(), self._adopt(frame)]
        return self._restart() if known is False else self._ask(doubt=True)

    def _restart(self) -> list[Step]:
        """Batches that wait are dropped: they are the old process's, or the replay has them."""
        self._history.forget()
        self.failures = 0
        self._waiting.take_all()
        self._asked = None
        steps: list[Step] = [Restarted()]
        return [*steps, *self._ask(doubt=True)] if self._replayable else steps

    def _verify(self, frame: Frame) -> list[Step]:
        """The first batch of a replay that was asked from the last applied one."""
        self._verified = True
        if frame.sequence > self.last:
            if not self._doubted and self._waiting and self._waiting.first.sequence == self.last + 1:
                return self._go_on_live()
            # Whose the waiting batches are cannot be told: ask anew, so that they came before it.
            return [self._lose("unreplayable"), self._adopt_oldest(frame), *self._ask(doubt=True)]
        return [] if self._history.knows(frame) else self._restart()

    def _release(self) -> list[Step]:
        """Use what waited for the replay that has just ended."""
        steps: list[Step] = []
        if self._is_stale():
            return self._release_without_replay()
        self._waiting.drop_before_replay()  # the replay had them, or their sender is gone
        while self._waiting:
            frame = self._waiting.first
            if frame.sequence > self.last + 1 or (frame.sequence <= self.last and not self._history.knows(frame)):
                return steps + self._ask(doubt=True)
            self._waiting.take()
            if frame.sequence > self.last:
                steps.append(self._apply(frame))
            else:
                self.duplicates += 1
        return steps

    def _go_on_live(self) -> list[Step]:
        """Do without a replay that nothing but a silence was the reason for: live batches went on without a break."""
        self._asked = None
        self.failures = 0
        return [step for frame in self._waiting.take_all() for step in self.live(*frame)]

    def _without_replay(self, frame: Frame) -> list[Step]:
        """Use a batch that waited for a replay that never came."""
        if frame.sequence == self.last + 1:
            return [self._apply(frame)]
        if frame.sequence > self.last:
            lost: list[Step] = [] if self._history.is_empty else [self._lose("replay_failed")]
            return [*lost, self._adopt(frame)]
        if self._history.knows(frame):
            return []
        self._history.forget()
        return [Restarted(), self._adopt(frame)]
