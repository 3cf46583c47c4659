"""Do events tell salted prompts and those of LoRA adapters apart: each has a chain of blocks of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random
from secrets import token_hex

from gateway.check.busyness import stays_busy
from gateway.check.knowledge import Knowledge
from gateway.check.replica_caller import CallFailed, ReplicaCaller
from gateway.check.unseen_prompt import UnseenPrompt, unseen_prompt
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica

_MOST_ADAPTERS = 2


class ScopeCheck:
    """For replicas whose events tell of plain prompts. ``deadline_s``: how long events may take after an answer."""

    def __init__(
        self, knowledge: Knowledge, caller: ReplicaCaller, *, random: Random | None = None, deadline_s: float = 3.0
    ) -> None:
        self._knowledge = knowledge
        self._caller = caller
        self._random = random or Random()
        self._deadline_s = deadline_s

    async def check(self, replica: Replica) -> AsyncIterator[Verdict]:
        """Generates one token with a salt, and one with each of a few adapters."""
        if await stays_busy(replica, self._knowledge.patience_s):
            yield skipped("salt", replica.id, "it has waiting requests")
            return
        adapters = self._adapters(replica)[:_MOST_ADAPTERS]
        checks = (self._check_salt(replica), *(self._check_adapter(replica, adapter) for adapter in adapters))
        for verdict in await asyncio.gather(*checks):
            yield verdict

    def _adapters(self, replica: Replica) -> list[str]:
        return [card.id for card in replica.server.cards if card.parent is not None]

    async def _check_salt(self, replica: Replica) -> Verdict:
        try:
            prompt = await self._make(replica, salt=f"prefixway-check-{token_hex(8)}")
            if await self._is_told(replica, prompt, unless=("",)):
                return fine("salt", replica.id)
        except CallFailed as failure:
            return skipped("salt", replica.id, str(failure))
        is_plain = prompt.told_as(replica, self._knowledge, [""]) is not None
        detail = "told of as if it had none" if is_plain else "what had one was not told of, what had none was"
        return wrong("salt", replica.id, "salt_dropped", detail)

    async def _check_adapter(self, replica: Replica, adapter: str) -> Verdict:
        check = f"lora {adapter}"
        others = ["", *(name for name in self._adapters(replica) if name != adapter)]
        try:
            prompt = await self._make(replica, lora=adapter)
            if await self._is_told(replica, prompt, unless=others):
                return fine(check, replica.id)
        except CallFailed as failure:
            return skipped(check, replica.id, str(failure))
        other = prompt.told_as(replica, self._knowledge, others)
        whose = "under no name it has" if other is None else f"as {other or 'the base model'}'s"
        return wrong(check, replica.id, "lora_differs", f"what {adapter} was sent was told of {whose}")

    async def _make(self, replica: Replica, *, lora: str = "", salt: str = "") -> UnseenPrompt:
        return await unseen_prompt(replica, self._knowledge, self._caller, self._random, lora=lora, salt=salt)

    async def _is_told(self, replica: Replica, prompt: UnseenPrompt, *, unless: Sequence[str]) -> bool:
        """Raises :class:`CallFailed`."""
        await prompt.send(replica, self._caller)
        seconds = await prompt.await_told(replica, self._knowledge, self._deadline_s, unless=unless)
        return seconds is not None
