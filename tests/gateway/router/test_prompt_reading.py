"""A prompt's tokens, hashes and holders: at once where that is possible."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.events import BlockStored
from gateway.kv.index import Chains
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.resolver import Resolver
from gateway.kv.salted_prompts import SaltedPrompts
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.encoder import AbsentEncoder, PromptEncoder
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.candidates import BlockSizes
from gateway.router.prepared import Prepared
from gateway.router.prompt_reading import PromptReading
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.gateway.examples import MODEL, SECRET, Events, FarIndex, SlowEncoder, a_pool, a_router

_BLOCK = 16
_SYSTEM = {"role": "system", "content": "Say what you see, in few words. " * 30}
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000}}


def _request(tokens: int = 1000) -> InferenceRequest:
    body = {"model": MODEL, "prompt": list(range(tokens))}
    return InferenceRequest.parse("completions", json.dumps(body).encode())


def _chat(content: object) -> InferenceRequest:
    body = {"model": MODEL, "messages": [_SYSTEM, {"role": "user", "content": content}]}
    return InferenceRequest.parse("chat", json.dumps(body).encode())


@pytest.fixture
async def encoder() -> AsyncIterator[PromptEncoder]:
    registry = EncoderRegistry(str(DEFAULT_FOLDER), hub=None, remote=None, max_prompt_chars=100_000)
    yield await registry.load(MODEL, "")
    registry.close()


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


async def test_a_picture_goes_where_the_text_before_it_is(encoder: PromptEncoder) -> None:
    """The engine's events of such a chat: blocks up to the picture's are known, its own and all after are not."""
    pool, index = a_pool(), MemoryIndex()
    router = a_router(pool, index=index, encoder=encoder)
    _, b = pool.replicas
    computed = (await encoder.encode(_chat("<image>" * 50 + " What is it?"))).tokens
    blocks, text_blocks = len(computed) // 4 // _BLOCK, (await router.prepare(_chat([_IMAGE]))).prompt.count // _BLOCK
    keys = [None if block <= text_blocks else [["digest", 0]] for block in range(blocks)]
    event = BlockStored(
        list(range(1, blocks + 1)), None, computed[: blocks * _BLOCK * 4], _BLOCK, "GPU", group=0,
        attention="full_attention", extra_keys=keys,
    )  # fmt: skip
    index.begin(b.key, {Tier.L0: Resolver(SECRET, MODEL).resolve(event).blocks})

    prepared = await router.prepare(_chat([_IMAGE, {"type": "text", "text": "And this?"}]))
    decision = router.attempt(prepared).decision

    assert text_blocks > 10
    assert prepared.confirmed[b.key] == TierTokens(text_blocks * _BLOCK)
    assert (decision.replica_id, decision.reasons) == ("b", "prefix, image")
    assert decision.matched == f"known={prepared.prompt.count},l0={text_blocks * _BLOCK}"
    assert decision.incomparable == "image"


async def test_all_full_blocks_of_a_beginning_are_matchable(encoder: PromptEncoder) -> None:
    """More tokens follow, so its last block is not the prompt's; and what may follow is work too."""
    prepared = await a_router(a_pool(), encoder=encoder).prepare(_chat([_IMAGE]))

    assert prepared.matchable == prepared.chains
    assert prepared.work_tokens == prepared.prompt.count + 1_024
    assert prepared.incomparable == "image"


UNKNOWN: list[Any] = [[_IMAGE], [{"type": "hologram"}], 5, [5], "\ud800", {"a": 1}]


@pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware", "least_loaded", "round_robin"])
async def test_prompts_that_nobody_knows_are_spread_evenly(strategy: str) -> None:
    """Pictures, odd bodies, no tokenizer, and prompts of one token: never refused, never all to one."""
    servers = ",".join(f"{name}=http://{name}:1" for name in "abcd")
    bodies = [{"model": MODEL, "messages": [{"role": "user", "content": content}]} for content in UNKNOWN]
    requests = [InferenceRequest.parse("chat", json.dumps(body).encode()) for body in bodies]
    requests += [_request(1), InferenceRequest.parse("completions", b'{"model": "tiny"}')]
    for request in requests:
        router = a_router(a_pool(servers), strategy=strategy)
        counts = Counter([router.attempt(await router.prepare(request)).decision.replica_id for _ in range(100)])

        assert len(counts) == 4
        assert max(counts.values()) - min(counts.values()) <= 10


async def test_where_salted_prompts_begin_is_noted() -> None:
    """As without the salt, in the replicas' own block sizes and the usual ones; of others nothing is."""
    pool, salted = a_pool(), SaltedPrompts()
    reading = PromptReading(
        pool,
        MemoryIndex(),
        BlockSizes(Events({"a": {Tier.L0: 24}})),
        encoder=lambda _: AbsentEncoder("no_tokenizer"),
        secret=lambda: SECRET,
        clock=lambda: 0.0,
        salted=salted,
    )

    def read(**fields: object) -> Prepared:
        body = json.dumps({"model": MODEL, "prompt": list(range(300)), **fields}).encode()
        request = InferenceRequest.parse("completions", body)
        prepared = Prepared(request, pool.names.resolve(request.model, request.alias), "kv_aware")
        assert reading.read_now(prepared)
        return prepared

    plain = read()
    assert len(salted) == 0
    assert read(cache_salt="s").chains[16][0] not in salted
    assert plain.chains[16][0] in salted
    assert plain.chains[24][0] in salted
    assert len(salted) == len({16, 24, 32, 64, 128, 256})
