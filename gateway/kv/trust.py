"""Trust: how far what events told of a replica is believed, and why.

Pure. It follows from the state of the replica's feed, from how late its events come, and from what requests showed:
whether what was predicted by events was there. Trust scales credit inside the cost of a replica; it never hides a
replica, so one that is not believed goes on getting requests, and each of them can restore it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class FeedState(Enum):
    """The reason, as a metric label, and its ``trust`` 0..1: how much of a predicted hit to count on."""

    FRESH = "fresh", 1.0  # connected, every batch applied in order
    SUSPECT = "suspect", 0.5  # catching up, or what is known may be another process's
    BLIND = "blind", 0.0  # no connection, or none for too long

    def __init__(self, label: str, trust: float) -> None:
        self.label = label
        self.trust = trust


class Doubt(NamedTuple):
    """What requests, or the history of a feed, say against a replica's events: ``trust`` at most, and a word why."""

    trust: float = 1.0
    word: str = ""


NO_DOUBT = Doubt()
#: Batches that come so much later than this publisher's usually do tell of a cache as it was.
LATE_S = 1.0
_LATE = Doubt(0.5, "late")


def judged(state: FeedState, late_s: float, doubt: Doubt) -> tuple[float, str]:
    """Trust 0..1 and its reason: ``fresh``, ``suspect`` or ``blind``, and after a colon what else lowered it."""
    if late_s > LATE_S and doubt.trust > _LATE.trust:
        doubt = _LATE
    if doubt.trust >= state.trust:
        return state.trust, state.label
    return doubt.trust, f"{FeedState.SUSPECT.label}: {doubt.word}"


# What a miss of all that was predicted adds to the account, less what every comparison takes from it: so much too much
# may be predicted for ever. Five such misses in a row are too many, four are not, and one in seven never is.
_TOLERATED = 0.15
_TOO_MUCH = 4.0
_ENOUGH_AGAIN = 1.0
_MOST = 4.5  # 24 good predictions restore trust, however many bad ones there were
_FULL_WEIGHT_SHARE = 0.25  # of the prompt: what is less weighs less
_MEMORY = 0.75  # what one more comparison leaves of those before
_HALF_LIFE_S = 300.0  # of the account, where nothing is compared
_LEAST_TRUST = 0.1  # between replicas that cost the same, a claim still counts: so that it is put to the test
_MANY_GAPS = 3.0
_GAP_HALF_LIFE_S = 30.0
_GAPS = Doubt(0.5, "gaps")


class Reliability:
    """Whether what was predicted of one engine process comes true. Only claims of too much count: more than was
    predicted may have come from a tier that nobody tells of, or from a request that was still running.

    The account is a cumulative sum (E. S. Page, 1954): each comparison adds the part of its prediction that was not
    there, less what is tolerated, and it never falls below zero. So a replica with few requests is not condemned by one
    miss, one whose every prediction fails is soon, and one that fails a little is once that is certain.
    """

    __slots__ = ("_account", "_distrusted", "_gaps", "_gaps_seen", "_over", "_predicted", "_settled_s")

    def __init__(self, now: float, gaps: int = 0) -> None:
        """``gaps``: of its feed, until now."""
        self._account = 0.0
        self._distrusted = False
        self._predicted = self._over = 0.0  # tokens, of the last few comparisons since all was well
        self._gaps_seen = gaps
        self._gaps = 0.0
        self._settled_s = now

    def __repr__(self) -> str:
        return f"<Reliability {self._account:.2f} {self.doubt.word or 'trusted'}>"

    def compared(self, predicted_tokens: int, over_tokens: int, prompt_tokens: int) -> None:
        """A prediction of something was put to the test. ``over_tokens``: of it, what was not there."""
        if not over_tokens and not self._account:
            self._predicted = self._over = 0.0
            return  # the way of nearly all
        weight = min(1.0, predicted_tokens / (_FULL_WEIGHT_SHARE * prompt_tokens))
        change = weight * (over_tokens / predicted_tokens - _TOLERATED)
        self._account = min(_MOST, max(0.0, self._account + change))
        self._predicted = self._predicted * _MEMORY + predicted_tokens
        self._over = self._over * _MEMORY + over_tokens
        self._judge()

    def settle(self, gaps: int, now: float) -> None:
        """Let time pass. ``gaps``: of its feed, until now."""
        passed_s = now - self._settled_s
        self._settled_s = now
        self._account *= 0.5 ** (passed_s / _HALF_LIFE_S)
        self._gaps = self._gaps * 0.5 ** (passed_s / _GAP_HALF_LIFE_S) + max(0, gaps - self._gaps_seen)
        self._gaps_seen = gaps
        self._judge()

    @property
    def doubt(self) -> Doubt:
        """What follows for trust: of what was claimed lately, the part that was there."""
        if self._distrusted:
            share = self._over / self._predicted if self._predicted else 0.0
            return Doubt(max(_LEAST_TRUST, 1.0 - share), "over_predicted")
        return _GAPS if self._gaps >= _MANY_GAPS else NO_DOUBT

    def _judge(self) -> None:
        self._distrusted = self._account >= (_ENOUGH_AGAIN if self._distrusted else _TOO_MUCH)
