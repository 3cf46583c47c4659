"""All requests of a session to one replica, its home, as long as that is not much busier than the others.

Reads no prompt. A session's order of replicas comes from hashing its name with theirs (rendezvous hashing), so every
gateway finds the same one, before and after a restart; a replica gets sessions in proportion to its speed. One that
joins takes over its own share and moves no other session; one that leaves hands its sessions to many.

    load = promised seconds + request_s * (requests in flight + 1) / speed
    too busy: load of the home > bound * mean load + slack_s + moving * seconds of this request's prefill

While its home is too busy, a session goes to the first replica of its order whose load is at most the mean, and it
returns afterwards. A request without a session goes where the load is least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log
from random import Random
from typing import ClassVar

from router_strategies._load import REQUEST_S, least_of, load_s
from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy

_MASK = (1 << 64) - 1
_UNIT = 2.0**-53
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class SessionStrategy(Strategy):
    """``bound``: how many times the mean load is too much. ``slack_s``: seconds of load that never are.
    ``moving``: how many seconds of queue are borne for each second of prefill that another replica would have to
    repeat. ``request_s``: seconds that a request in flight weighs besides its prefill. ``seed`` makes random ties
    repeatable.
    """

    reads_prompt: ClassVar[bool] = False

    bound: float = 1.25
    slack_s: float = 0.2
    moving: float = 1.0
    request_s: float = REQUEST_S
    seed: int | None = None
    _random: Random = field(init=False, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False)  # by replica

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError("bound must be at least 1")
        if min(self.slack_s, self.moving, self.request_s) < 0:
            raise ValueError("slack_s, moving and request_s must not be negative")
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        loads = [load_s(candidate, self.request_s) for candidate in candidates]
        if not request.session:
            return Choice(least_of(candidates, loads, self._random), "least_loaded")
        places = self._places(request.session, candidates)
        home = places.index(min(places))
        if loads[home] <= self._most_s(candidates[home], loads):
            return Choice(candidates[home], "session")
        mean_s = sum(loads) / len(loads)
        chosen = min(range(len(loads)), key=lambda place: (loads[place] > mean_s, places[place]))
        return Choice(candidates[chosen], "session" if chosen == home else "spill")

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        """In the session's order, but first a home that is not too busy, then who is not busier than the mean; without
        a session by load.
        """
        loads = [load_s(candidate, self.request_s) for candidate in candidates]
        if not request.session:
            return [Cost((load,), {"load_s": load}) for load in loads]
        places, mean_s = self._places(request.session, candidates), sum(loads) / len(loads)
        home = min(places)
        costs = []
        for candidate, place, load in zip(candidates, places, loads):
            most_s = self._most_s(candidate, loads) if place == home else mean_s
            rank = float(load > mean_s) + (0.0 if place == home and load <= most_s else 2.0)
            costs.append(Cost((rank, place), {"place": place, "load_s": load, "most_load_s": most_s}))
        return costs

    def _most_s(self, home: Candidate, loads: Sequence[float]) -> float:
        """The load that is just borne."""
        return self.bound * sum(loads) / len(loads) + self.slack_s + self.moving * home.prefill_s

    def _places(self, session: str, candidates: Sequence[Candidate]) -> list[float]:
        """A number for each; the least is the session's home, the next one its second choice, and so on.

        Of exponentially distributed numbers whose rates are the speeds, each one is the least in proportion to its
        rate, whatever the others are.
        """
        ours, known = _number(session), self._numbers
        places = []
        for candidate in candidates:
            theirs = known.get(candidate.id)
            if theirs is None:
                theirs = self._remember(candidate.id)
            # Two rounds of multiplying and folding make 64 even bits of the two numbers.
            mixed = (ours ^ theirs) * 0xBF58476D1CE4E5B9 & _MASK
            mixed = (mixed ^ mixed >> 32) * 0x94D049BB133111EB & _MASK
            places.append(-log(((mixed >> 11) + 0.5) * _UNIT) / candidate.speed)
        return places

    def _remember(self, replica_id: str) -> int:
        if len(self._numbers) >= _MOST_REMEMBERED:  # replicas come with ever new names
            self._numbers.clear()
        number = self._numbers[replica_id] = _number(replica_id)
        return number


def _number(name: str) -> int:
    """64 bits, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest())


STRATEGY: type[Strategy] = SessionStrategy
