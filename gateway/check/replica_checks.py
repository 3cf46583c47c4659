"""ReplicaChecks: every check of one replica, in the order of the chain, within a time."""

from __future__ import annotations

import asyncio
from random import Random

from gateway.check.event_check import EventCheck
from gateway.check.holding_check import check_holding
from gateway.check.knowledge import Knowledge
from gateway.check.replay_check import check_replay
from gateway.check.replica_caller import ReplicaCaller
from gateway.check.scope_check import ScopeCheck
from gateway.check.state_check import block_sizes, check_metrics, check_server
from gateway.check.tokenizer_check import check_tokenizer
from gateway.check.verdict import Verdict, skipped, wrong
from gateway.fleet.replica import Replica

_MOST_RESTARTS = 1  # in the time of one check; an engine takes longer to start a second time


class ReplicaChecks:
    """``timeout_s``: for one replica, all together. ``event_deadline_s``: for events after an answer."""

    def __init__(
        self,
        knowledge: Knowledge,
        caller: ReplicaCaller,
        *,
        random: Random | None = None,
        timeout_s: float = 20.0,
        event_deadline_s: float = 3.0,
    ) -> None:
        self._knowledge = knowledge
        self._caller = caller
        self._timeout_s = timeout_s
        self._events = EventCheck(knowledge, caller, random=random, deadline_s=event_deadline_s)
        self._scopes = ScopeCheck(knowledge, caller, random=random, deadline_s=event_deadline_s)

    async def check(self, replica: Replica) -> list[Verdict]:
        """Of a replica that restarts meanwhile nothing is said: it is another one now."""
        key, restarts, verdicts = replica.key, self._restarts(replica), list[Verdict]()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._check_all(replica, verdicts)
        except TimeoutError:
            verdicts.append(skipped("the rest", replica.id, f"no time left after {self._timeout_s:g} s"))
        if (times := self._restarts(replica) - restarts) > _MOST_RESTARTS:
            detail = f"it contradicts the events: {times} times it seemed to be that of a new process"
            return [wrong("replay", replica.id, "replay_stale", detail)]
        if replica.key != key:
            return [skipped("all", replica.id, "it restarted meanwhile")]
        return verdicts

    def _restarts(self, replica: Replica) -> int:
        stats = self._knowledge.stats(replica)
        return stats.restarts if stats is not None else 0

    async def _check_all(self, replica: Replica, verdicts: list[Verdict]) -> None:
        verdicts += check_server(replica.server)
        if not replica.server.healthy or not replica.server.cards:
            return
        verdicts += check_metrics(replica)
        verdicts += await self._check_tokenizer(replica)
        # Before anything new is stored on top of what is said to be held.
        holding = await check_holding(replica, self._knowledge, self._caller)
        events = await self._check_events(replica)
        replay = await check_replay(replica, self._knowledge)  # by now something has come live
        if any(verdict.check == "events" and verdict.finding is not None for verdict in events):
            holding = skipped(holding.check, replica.id, "its events do not tell")
        verdicts += [holding, *events, block_sizes(replica, self._knowledge), replay]

    async def _check_tokenizer(self, replica: Replica) -> list[Verdict]:
        return [verdict async for verdict in check_tokenizer(replica, self._knowledge, self._caller)]

    async def _check_events(self, replica: Replica) -> list[Verdict]:
        """What has a salt or an adapter only means something where plain prompts are told of."""
        verdicts = [verdict async for verdict in self._events.check(replica)]
        if any(verdict.check == "events" and verdict.word == "ok" for verdict in verdicts):
            verdicts += [verdict async for verdict in self._scopes.check(replica)]
        return verdicts
