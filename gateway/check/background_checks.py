"""BackgroundChecks: checks each replica after it joined, then now and then, and at once when something looks wrong.

One replica at a time, with a pause in between, and never two gateways the same one: a handful of tiny requests must not
become a load, however large the fleet and however many symptoms there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from gateway.check.busyness import is_busy
from gateway.check.finding_book import FindingBook
from gateway.check.knowledge import Knowledge
from gateway.check.replay_check import check_replay
from gateway.check.replica_checks import ReplicaChecks
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.trust import FeedState

_SETTLING_S = 3.0  # a replica that joined is given, to be seen as a whole
_UNSETTLED_S = 60.0  # after which it is checked however it is
_JITTER = 0.2  # of an interval
_PAUSE_S = 0.5  # between two checks
_AGAIN_S = 3.0  # after one check of a replica with findings or suspicions the next may follow, doubled where they stay
_MOST_AGAIN_S = 600.0
_REPLAY_S = 5.0  # between two looks at one replica's replay


@dataclass(slots=True)
class _Plan:
    """When one engine process is checked next. ``again_s``: not earlier than so long after the last time."""

    joined_s: float
    due_s: float
    again_s: float = _AGAIN_S
    last_s: float = float("-inf")
    suspected: bool = False
    suspicions: set[str] = field(default_factory=set)  # symptoms that it was checked for since all was well
    replayed_s: float = float("-inf")  # when its replay was last looked at
    replayed_at: int = -1  # and the last batch by then


class BackgroundChecks:
    """``interval_s``: between two checks of a replica where all is well; ``None``: once. ``may_check``: whether this
    process is the one to check a replica.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        checks: ReplicaChecks,
        book: FindingBook,
        *,
        interval_s: float | None,
        may_check: Callable[[ReplicaKey], bool],
        settling_s: float = _SETTLING_S,
        pause_s: float = _PAUSE_S,
        random: Random | None = None,
    ) -> None:
        self._knowledge = knowledge
        self._checks = checks
        self._book = book
        self._interval_s = interval_s
        self._may_check = may_check
        self._settling_s = settling_s
        self._pause_s = pause_s
        self._random = random or Random()
        self._plans: dict[ReplicaKey, _Plan] = {}
        self._wake = asyncio.Event()
        self.done = 0  # checks of a replica

    def __repr__(self) -> str:
        return f"<BackgroundChecks of {len(self._plans)} replicas, {self.done} done>"

    def suspect(self, replica: Replica, symptoms: Collection[str]) -> None:
        """Something looks wrong there: check it at once, unless that was done just now. A symptom that is new has not
        to wait for as long as those that were looked into in vain.
        """
        plan = self._plans.get(replica.key)
        if plan is not None:
            plan.suspected = True
            if not plan.suspicions.issuperset(symptoms):
                plan.suspicions.update(symptoms)
                plan.again_s = _AGAIN_S
            plan.due_s = min(plan.due_s, max(self._knowledge.clock(), plan.last_s + plan.again_s))
            self._wake.set()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            self._wake.clear()
            self._plan_all()
            replica, replayed = self._next(), self._next_replay()
            if replica is not None:
                await self._check(replica)
            if replayed is not None:
                await self._check_replay(replayed)
            if replica is not None:
                await asyncio.sleep(self._pause_s)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s):
                    await self._wake.wait()

    def _plan_all(self) -> None:
        """Those that came, or began anew; and no others any more."""
        now, plans = self._knowledge.clock(), dict[ReplicaKey, _Plan]()
        for replica in self._knowledge.pool.replicas:
            plan = self._plans.get(replica.key)
            if plan is None:
                plan = _Plan(now, now + self._settling_s * self._random.uniform(1, 1 + _JITTER))
            plans[replica.key] = plan
        self._plans = plans

    def _next(self) -> Replica | None:
        """Of those that are due and can be checked, a suspected one, else the one that is due for longest."""
        now, plans = self._knowledge.clock(), self._plans
        due = [r for r in self._knowledge.pool.replicas if plans[r.key].due_s <= now and self._is_fit(r, now)]
        return min(due, key=lambda replica: (not plans[replica.key].suspected, plans[replica.key].due_s), default=None)

    def _is_fit(self, replica: Replica, now: float) -> bool:
        server, plan = replica.server, self._plans[replica.key]
        if not server.healthy or server.draining or server.held_back or not self._may_check(replica.key):
            return False
        return plan.suspected or self._is_settled(replica) or now - plan.joined_s > _UNSETTLED_S

    def _is_settled(self, replica: Replica) -> bool:
        """Whether its feed has caught up and its tokenizer was looked for, so that a check can say something."""
        stats = self._knowledge.stats(replica)
        is_read = self._knowledge.encoder(replica.key.namespace) is not None and replica.reported_s is not None
        return is_read and (stats is None or stats.state is FeedState.FRESH)

    async def _check(self, replica: Replica) -> None:
        key, plan = replica.key, self._plans[replica.key]
        verdicts = await self._checks.check(replica)
        self.done += 1
        if replica.key != key:
            return
        self._book.checked(replica.id, verdicts)
        names = {verdict.word for verdict in verdicts if verdict.finding is not None}
        if "restart_unnoticed" in names:
            self._knowledge.events.indexer.disprove(key, "vanished")
        self._replan(plan, is_quiet=not names and not plan.suspected and not is_busy(replica))

    def _replan(self, plan: _Plan, *, is_quiet: bool) -> None:
        """What stays wrong, too busy to tell, or suspicious for no reason that is found, is looked at more and more
        seldom.
        """
        now = plan.last_s = self._knowledge.clock()
        if not is_quiet:
            plan.due_s = now + plan.again_s
            plan.again_s = min(2 * plan.again_s, _MOST_AGAIN_S)
        else:
            plan.again_s = _AGAIN_S
            plan.suspicions.clear()
            plan.due_s = float("inf")
            if self._interval_s is not None:
                plan.due_s = now + self._interval_s * self._random.uniform(1 - _JITTER, 1)
        plan.suspected = False

    # The replay alone, which costs an engine nothing: nobody notices that it is wrong before it is needed

    def _next_replay(self) -> Replica | None:
        """The one that published something since its replay was looked at, longest ago."""
        now, best, oldest_s = self._knowledge.clock(), None, float("inf")
        for replica in self._knowledge.pool.replicas:
            plan, stats = self._plans[replica.key], self._knowledge.stats(replica)
            if stats is None or stats.state is FeedState.BLIND or stats.last_sequence == plan.replayed_at:
                continue
            if now - plan.replayed_s > _REPLAY_S and plan.replayed_s < oldest_s and self._may_check(replica.key):
                best, oldest_s = replica, plan.replayed_s
        return best

    async def _check_replay(self, replica: Replica) -> None:
        plan, stats = self._plans.get(replica.key), self._knowledge.stats(replica)
        if plan is None:  # it began anew meanwhile
            return
        plan.replayed_s, plan.replayed_at = self._knowledge.clock(), stats.last_sequence if stats else -1
        verdict = await check_replay(replica, self._knowledge)
        if not verdict.skipped:
            self._book.checked_once(replica.id, verdict)
