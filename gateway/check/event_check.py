"""Do a replica's events tell of what it has just been sent; and if not, why not.

One small request of unseen tokens, sent twice: its blocks must be announced, and must be found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random

from gateway.check.busyness import is_busy, stays_busy
from gateway.check.knowledge import Knowledge
from gateway.check.replica_caller import CallBroken, CallFailed, CallTimedOut, ReplicaCaller, Usage
from gateway.check.unseen_prompt import UnseenPrompt, unseen_prompt
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica
from gateway.kv.tiers import Tier
from gateway.kv.trust import LATE_S, FeedState
from gateway.prompt.blocks import matchable_blocks

_EVENTS, _REUSE, _DETAILS = "events", "reuse", "usage"
_FULL = 0.8
_MOST_OTHERS = 3


class EventCheck:
    """``deadline_s``: how long events of a request may take after its answer; those after ``late_s`` are late."""

    def __init__(
        self,
        knowledge: Knowledge,
        caller: ReplicaCaller,
        *,
        random: Random | None = None,
        deadline_s: float = 3.0,
        late_s: float = 2.0,
    ) -> None:
        self._knowledge = knowledge
        self._caller = caller
        self._random = random or Random()
        self._deadline_s = deadline_s
        self._late_s = late_s

    async def check(self, replica: Replica) -> AsyncIterator[Verdict]:
        """Generates twice, one token each time."""
        if await stays_busy(replica, self._knowledge.patience_s):
            for check in (_EVENTS, _REUSE, _DETAILS):
                yield skipped(check, replica.id, "it has waiting requests")
            return
        stats = self._knowledge.stats(replica)
        batches, dropped = (stats.batches, stats.dropped.copy()) if stats else (0, None)
        was_catching_up = stats is not None and stats.state is FeedState.SUSPECT
        try:
            prompt = await unseen_prompt(replica, self._knowledge, self._caller, self._random)
            await prompt.send(replica, self._caller)
            again = await prompt.send(replica, self._caller)  # at once: a small cache forgets soon
            if again.cached == 0:
                again = await prompt.send(replica, self._caller)
            told_s = await prompt.await_told(replica, self._knowledge, self._deadline_s) if stats else None
        except CallFailed as failure:
            yield self._failed(replica, failure)
            return
        for verdict in self._reuse(replica, prompt, again):
            yield verdict
        if stats is None:
            yield self._not_followed(replica)
            return
        if told_s is not None:
            yield self._told(replica, told_s)
            for verdict in self._told_elsewhere(replica, prompt):
                yield verdict
            return
        if was_catching_up and stats.state is FeedState.SUSPECT:  # neither lost nor late: they wait here for a replay
            yield skipped(_EVENTS, replica.id, "its feed has not caught up: what was missed is waited for")
            return
        reasons = stats.dropped - dropped if dropped is not None else {}
        yield await self._untold(replica, prompt, stats.batches - batches, ", ".join(sorted(reasons)))

    def _failed(self, replica: Replica, failure: CallFailed) -> Verdict:
        """Its probes were answered, so nobody else tells that it generates nothing. With work to do it may be slow."""
        is_stuck = isinstance(failure, CallTimedOut) and not replica.report.running
        if is_stuck or isinstance(failure, CallBroken):
            return wrong(_EVENTS, replica.id, "unreachable", str(failure))
        return skipped(_EVENTS, replica.id, str(failure))

    # What usage tells

    def _reuse(self, replica: Replica, prompt: UnseenPrompt, again: Usage) -> Iterator[Verdict]:
        """The same prompt a second time must be found, all of it but the block of its last token."""
        if again.cached is None:
            yield wrong(_DETAILS, replica.id, "details_off", "usage without prompt_tokens_details.cached_tokens")
            yield skipped(_REUSE, replica.id, "usage does not tell")
            return
        yield fine(_DETAILS, replica.id)
        size = self._knowledge.block_size(replica)
        expected = matchable_blocks(len(prompt.ids), size) * size
        detail = f"{again.cached} of {expected} tokens found again at once"
        if not again.cached and is_full(replica, self._knowledge):
            yield skipped(_REUSE, replica.id, "its cache is so full that nothing stays")
        elif not again.cached:
            yield wrong(_REUSE, replica.id, "prefix_caching_off", detail)
        else:
            yield fine(_REUSE, replica.id, detail)

    # What events tell

    def _not_followed(self, replica: Replica) -> Verdict:
        if not self._knowledge.events_wanted:
            return skipped(_EVENTS, replica.id, "PREFIXWAY_KV_EVENTS=off")
        if self._knowledge.events.has_events(replica.key):
            return skipped(_EVENTS, replica.id, "followed by another process")
        return wrong(_EVENTS, replica.id, "events_off", "neither it nor a setting says where they are")

    def _told(self, replica: Replica, seconds: float) -> Verdict:
        if seconds > self._late_s:
            return wrong(_EVENTS, replica.id, "events_late", f"{seconds:.1f} s after the answer")
        return fine(_EVENTS, replica.id, f"told of a probe {seconds * 1000:.0f} ms after its answer")

    def _told_elsewhere(self, replica: Replica, prompt: UnseenPrompt) -> Iterator[Verdict]:
        """Whoever else's events tell of it are not that other's. Unless both are one engine with two addresses."""
        own = self._knowledge.events.followable.get(replica.key)
        for other in self._others(replica):
            source = self._knowledge.events.followable.get(other.key)
            if prompt.is_told_by(other, self._knowledge) and source != own:
                detail = f"they tell of what {replica.id} was sent"
                yield wrong(_EVENTS, replica.id, "events_of_another", detail, of=other.id)

    async def _untold(self, replica: Replica, prompt: UnseenPrompt, came: int, dropped: str) -> Verdict:
        """Why they did not tell of it in time; if they do meanwhile, they are late."""
        sent_s = self._knowledge.clock()
        verdict = await self._diagnose(replica, prompt, came, dropped)
        if not prompt.is_told_by(replica, self._knowledge):
            return verdict
        late_s = self._deadline_s + self._knowledge.clock() - sent_s
        return wrong(_EVENTS, replica.id, "events_late", f"up to {late_s:.0f} s after the answer")

    async def _diagnose(self, replica: Replica, prompt: UnseenPrompt, came: int, dropped: str) -> Verdict:
        stats, source = self._knowledge.stats(replica), self._knowledge.events.followable.get(replica.key)
        where = source.endpoint if source else "its events"
        if stats is None or stats.state is FeedState.BLIND:
            return wrong(_EVENTS, replica.id, "events_silent", f"no connection to {where}")
        if replica.report.prefix_caching is False:
            return skipped(_EVENTS, replica.id, "it caches nothing, so there is nothing to tell of")
        wait = prompt.await_told(replica, self._knowledge, 0.0 if came else self._deadline_s / 2)
        other, told_s = await asyncio.gather(self._whose(replica), wait)
        if other is not None:
            return wrong(_EVENTS, replica.id, "events_of_another", f"{where} tells of what {other} was sent")
        if not came and told_s is None:
            return wrong(_EVENTS, replica.id, "events_silent", f"nothing came from {where} after a probe")
        if dropped:
            return wrong(_EVENTS, replica.id, "unconfirmed", f"events of a probe are of no use: {dropped}")
        if stats.late_s > LATE_S:
            return wrong(_EVENTS, replica.id, "events_late", f"{stats.late_s:.0f} s later than they usually come")
        detail = f"{came} batches came from {where}, none of which tells of a probe"
        return wrong(_EVENTS, replica.id, "events_of_another", detail)

    async def _whose(self, replica: Replica) -> str | None:
        """Which other replica the events are of that are followed for this one, if any tells."""
        own = self._knowledge.events.followable.get(replica.key)
        others = [other for other in self._others(replica) if other.server.healthy and not is_busy(other)]
        same = [o for o in others if own is not None and self._knowledge.events.followable.get(o.key) == own]
        asked = [*same, *(other for other in others if other not in same)][:_MOST_OTHERS]
        told = await asyncio.gather(*(self._is_told_of(other, by=replica) for other in asked))
        return next((other.id for other, is_told in zip(asked, told) if is_told), None)

    async def _is_told_of(self, other: Replica, *, by: Replica) -> bool:
        try:
            prompt = await unseen_prompt(other, self._knowledge, self._caller, self._random)
            await prompt.send(other, self._caller)
        except CallFailed:
            return False
        return await prompt.await_told(by, self._knowledge, self._deadline_s / 3) is not None

    def _others(self, replica: Replica) -> list[Replica]:
        members = self._knowledge.pool.members(replica.key.namespace).replicas
        return [other for other in members if other is not replica]


def is_full(replica: Replica, knowledge: Knowledge) -> bool:
    """Whether it evicts all the time, by what its events say that it holds."""
    held = knowledge.events.indexer.owned_blocks(replica.key, Tier.L0) * knowledge.block_size(replica)
    return bool(replica.kv_tokens) and held > _FULL * replica.kv_tokens
