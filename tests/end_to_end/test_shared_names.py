"""Whatever models and replicas are called, and however many there are, what one gateway knows the other one does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
import pytest

from gateway.app import Gateway
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.block_bytes import members
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.shared.link.keys import Keys
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.end_to_end.prediction_watch import cached, matched
from tests.end_to_end.shared_house import SharedHouse, together
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually

BRACES, SPACES, QUOTED = "}{fleet}", "org/modèle 模型:1", "%7Bns=x%7D"
#: Each server's model; the last one has two ranks.
SERVERS = {"10.0.0.7:8000": BRACES, "a#b:l0": SPACES, "a#b": SPACES, "a:1:writer": QUOTED, "[a]": BRACES}
PROMPT = " ".join(["the same long beginning"] * 60)


class Fleet:
    """Two gateways, of which the second one only reads."""

    def __init__(self, house: SharedHouse, client: Any) -> None:
        self.house = house
        self._client = client

    async def complete(self, number: int, model: str) -> httpx.Response:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 2}
        return (await self.house.clients[number].post("/v1/completions", json=body)).raise_for_status()

    def is_true(self, model: str) -> bool:
        """Whether Redis holds exactly what every rank of every server of a model does, and the reader knows where."""
        ranks = [
            (ReplicaKey(model, server_id, rank), engine.cache)
            for server_id, replica in self.house.replicas.items()
            for rank, engine in enumerate(replica.ranks)
            if replica.options.model == model
        ]
        return all(self._held(key) == self._truth(key.namespace, cache) for key, cache in ranks)

    def _held(self, key: ReplicaKey) -> set[bytes] | None:
        entry = together(self.house.gateways[1]).remote.entry(key)
        if entry is None:
            return None
        held: set[bytes] = self._client.smembers(Keys().blocks(key, entry.epoch, Tier.L0))
        return held

    def _truth(self, model: str, cache: Any) -> set[bytes]:
        root = chain_root(together(self.house.gateways[1]).secret.value, model, "", "", 16)
        own = [extend_chain(root, pack_tokens(p.tokens), 16)[-1] for p in cache.resident_prefixes().values()]
        return {*members(own), b"@"}


def is_read(redis: RedisServer, reader: Gateway, model: str) -> bool:
    """Whether a reader's registry is the one in Redis."""
    registry = together(reader).remote.registries.get(model)
    return registry is not None and registry.version == redis.client().hget(Keys().registry(model), "v")


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_odd_names(flavour: str) -> None:
    """Braces, spaces, any script in models' names; ':' and '#' in replicas', and one with two ranks."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(flavour))
        proxy = await stack.enter_async_context(TcpProxy(redis.port))
        replicas: Mapping[str, SimulatedReplica] = {
            id_: await stack.enter_async_context(
                SimulatedReplica(ReplicaOptions(model=model, speeds=FAST, ranks=1 + (id_ == "[a]")))
            )
            for id_, model in SERVERS.items()
        }
        house = SharedHouse(redis, proxy, replicas, stack)
        fleet = Fleet(house, redis.client())
        await house.add_gateway(None, indexer="inside")
        reader = await house.add_gateway(None, indexer="outside")

        for model in (BRACES, SPACES, QUOTED):
            for _ in range(3):
                await fleet.complete(0, model)
            async with asyncio.timeout(30):
                while not fleet.is_true(model):  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.02)
            await eventually(partial(is_read, redis, reader, model))
            again = await fleet.complete(1, model)
            assert matched(again) == cached(again) > 100

        registries = together(reader).remote.registries
        names = {model: sorted(registry.entries) for model, registry in registries.items()}
        assert names == {BRACES: ["10.0.0.7:8000", "[a]", "[a]#1"], SPACES: ["a#b", "a#b:l0"], QUOTED: ["a:1:writer"]}
        assert not together(reader).link.stats.refused
