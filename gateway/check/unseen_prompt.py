"""UnseenPrompt: a few blocks of tokens that no cache has seen, as the prompt of one small request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from gateway.check.knowledge import Knowledge
from gateway.check.probe_corpus import unseen_text
from gateway.check.replica_caller import CallFailed, ReplicaCaller, Usage
from gateway.fleet.replica import Replica
from gateway.prompt.blocks import pack_tokens

_LEAST_TOKENS = 129  # full blocks of up to 128 tokens, whatever a replica was thought to have
_MOST_BLOCKS = 3
_FEW = 512  # tokens of a block; of larger ones a single one has to do
_COMMON_IDS = range(300, 900)  # of any vocabulary: where a replica does not tokenize
_GLANCE_S = 0.02


class UnseenPrompt(NamedTuple):
    """``model``: base model or adapter, as the request names it."""

    model: str
    ids: list[int]
    lora: str = ""
    salt: str = ""

    async def send(self, replica: Replica, caller: ReplicaCaller) -> Usage:
        """Raises :class:`CallFailed`."""
        return await caller.complete(replica, self.model, self.ids, salt=self.salt)

    def block(self, replica: Replica, knowledge: Knowledge, *, lora: str | None = None, salt: str | None = None) -> int:
        """Own hash of its last full block there, which no other prompt has; under another scope if one is given."""
        lora, salt = self.lora if lora is None else lora, self.salt if salt is None else salt
        return knowledge.chain(replica, pack_tokens(self.ids), lora=lora, salt=salt)[-1]

    def is_told_by(self, source: Replica, knowledge: Knowledge, **scope: str) -> bool:
        """Whether the events followed for ``source`` told of it."""
        if len(self.ids) < knowledge.block_size(source):
            return False
        return knowledge.announced(source, self.block(source, knowledge, **scope))

    async def await_told(
        self, replica: Replica, knowledge: Knowledge, timeout_s: float, *, unless: Sequence[str] | None = None
    ) -> float | None:
        """Seconds until its events told of it; ``None``: they did not within ``timeout_s``.

        ``unless``: adapters under which it may be told of instead, unsalted: then nothing more is to be waited for.
        """
        began_s = knowledge.clock()
        while not self.is_told_by(replica, knowledge):
            if knowledge.clock() - began_s > timeout_s or self.told_as(replica, knowledge, unless or ()) is not None:
                return None
            await asyncio.sleep(_GLANCE_S)
        return knowledge.clock() - began_s

    def told_as(self, replica: Replica, knowledge: Knowledge, loras: Sequence[str]) -> str | None:
        """Under which of ``loras`` ("": the base model), unsalted, its events told of it; ``None``: under none."""
        told = (lora for lora in loras if self.is_told_by(replica, knowledge, lora=lora, salt=""))
        return next(told, None)


async def unseen_prompt(
    replica: Replica,
    knowledge: Knowledge,
    caller: ReplicaCaller,
    random: Random,
    *,
    lora: str = "",
    salt: str = "",
) -> UnseenPrompt:
    """Made by the replica's own tokenizer, so that nothing depends on whether ours is the same."""
    size = knowledge.block_size(replica)
    count = max(_LEAST_TOKENS, size * (_MOST_BLOCKS if size <= _FEW else 1) + 1)
    model = lora or replica.key.namespace
    question: dict[str, object] = {"prompt": unseen_text(count, random), "add_special_tokens": False}
    try:
        ids = (await caller.tokenize(replica, {"model": model, **question}))[:count]
    except CallFailed:
        ids = []
    if len(ids) < count:
        ids = random.choices(_COMMON_IDS, k=count)
    return UnseenPrompt(model, ids, lora, salt)
