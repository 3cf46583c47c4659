"""A prompt's tokens, hashes and holders: at once where that is possible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import Chains
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.inference_request import InferenceRequest
from tests.gateway.examples import MODEL, FarIndex, SlowEncoder, a_pool, a_router


def _request(tokens: int = 1000) -> InferenceRequest:
    body = {"model": MODEL, "prompt": list(range(tokens))}
    return InferenceRequest.parse("completions", json.dumps(body).encode())


class _WatchedIndex(MemoryIndex):
    """Says at which look-up something had happened before."""

    def __init__(self, happened: asyncio.Event) -> None:
        super().__init__()
        self._happened = happened
        self.seen: list[bool] = []

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        self.seen.append(self._happened.is_set())
        return await super().match(chains, keys)


async def test_what_is_known_at_once_is_read_at_once() -> None:
    """Without waiting it is the same."""
    pool, index = a_pool(), MemoryIndex()
    router = a_router(pool, index=index)
    _, b = pool.replicas
    index.begin(b.key, {Tier.L0: (await router.prepare(_request())).chains[16][:40]})
    now, later = router.prepare_now(_request()), await router.prepare(_request())

    assert now is not None
    assert now.confirmed == later.confirmed == {b.key: TierTokens(640)}
    assert (now.chains, now.matchable) == (later.chains, later.matchable)
    assert (now.prompt, now.work_tokens, now.strategy) == (later.prompt, later.work_tokens, later.strategy)


async def test_what_must_be_waited_for_is_not() -> None:
    """A prompt that a thread or a replica tokenizes, and an index that lies elsewhere."""
    far, slow = a_router(a_pool(), index=FarIndex()), a_router(a_pool(), encoder=SlowEncoder())

    assert [router.prepare_now(_request()) for router in (far, slow)] == [None, None]
    assert (await far.prepare(_request())).index_reason == "index_unavailable"
    assert (await slow.prepare(_request())).prompt.reason == "remote_tokenize"


async def test_others_have_their_turn_in_the_middle_of_a_long_prompt() -> None:
    """Between hashing it and what follows; a short one is done in one go."""
    seen = []
    for tokens in (1_000, 60_000):
        others = asyncio.Event()
        index = _WatchedIndex(others)
        asyncio.get_running_loop().call_soon(others.set)
        await a_router(a_pool(), index=index).prepare(_request(tokens))
        seen += index.seen

    assert seen == [False, True]


async def test_a_salt_is_a_chain_of_its_own() -> None:
    """And equal prompts have equal chains, whatever came between."""
    router = a_router(a_pool())
    salted = InferenceRequest.parse(
        "completions", json.dumps({"model": MODEL, "prompt": list(range(64)), "cache_salt": "s"}).encode()
    )
    requests = (_request(64), salted, _request(64))
    first, with_salt, again = [(await router.prepare(request)).chains[16] for request in requests]

    assert first == again
    assert set(first).isdisjoint(with_salt)
