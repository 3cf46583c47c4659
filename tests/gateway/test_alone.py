"""A gateway that shares nothing has everything all the same."""

from __future__ import annotations

import json

from gateway.alone import Alone
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.settings import Settings
from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from tests.gateway.examples import Clock, a_pool, a_router


def alone(**settings: str) -> Alone:
    return Alone(Settings.from_env(settings), a_pool(), Routed(), clock=Clock(), wall_clock=lambda: 1_700_000_000.0)


async def test_its_index_is_in_memory() -> None:
    """Requests are matched there, and /status says so."""
    process, key = alone(), ReplicaKey("tiny", "a")
    process.memory.begin(key, {Tier.L0: [1, 2]})

    assert (await process.index.match({16: [1, 2, 3]}, [key]))[key].l0 == 32
    status = process.status()
    assert (status["kind"], status["block_owners"]) == ("memory", 2)
    assert status == {"kind": "memory", "block_owners": 2, **process.budget.status()}
    assert process.collectors == ()
    assert process.parts == (process.events, process.budget)


def test_what_lies_in_shared_storage_is_estimated_where_it_is_wanted() -> None:
    """And /status says by what."""
    estimate = alone(PREFIXWAY_L2="estimate", PREFIXWAY_L2_TTL_S="60").budget.l2

    assert estimate is not None
    assert (estimate.ttl_s, alone().budget.l2) == (60.0, None)
    page = alone(PREFIXWAY_L2="estimate").status()["l2"]
    assert isinstance(page, dict)
    assert (page["kind"], page["ttl_s"], page["chunks"]) == ("estimate", 3600.0, 0)


def test_its_secret_is_the_settings_or_nobodys() -> None:
    """At random, two differ."""
    assert alone(PREFIXWAY_HASH_SECRET="sesame").secret.value == b"sesame"
    assert alone().secret.value != alone().secret.value


async def test_orders_take_effect_here() -> None:
    """A strategy, a drain, and the end of both."""
    pool = a_pool()
    process = Alone(Settings.from_env({}), pool, Routed(), clock=Clock(), wall_clock=lambda: 1_700_000_000.0)
    router = a_router(pool)
    process.attach(router)

    await process.orders.give(Order(STRATEGY, value="round_robin", id="1"))
    await process.orders.give(Order(DRAIN, "b", id="2"))
    assert (router.strategy, [server.draining for server in pool.servers]) == ("round_robin", [False, True])

    await process.orders.give(Order(STRATEGY, cleared=True, id="3"))
    await process.orders.give(Order(DRAIN, "b", cleared=True, id="4"))
    assert (router.strategy, [server.draining for server in pool.servers]) == ("kv_aware", [False, False])


async def test_to_start_and_to_finish_takes_nobody_else() -> None:
    """Nothing happens, and nothing is known of a replica that was never followed."""
    process = alone()
    await process.start()
    await process.finish()

    assert process.stats(ReplicaKey("tiny", "a")) is None
    json.dumps(process.status())


async def test_it_checks_every_replica_itself() -> None:
    """And nothing of its index lies anywhere else."""
    process = alone()

    assert process.may_check(ReplicaKey("tiny", "a"))
    assert (process.index_losses, list(process.unindexed())) == (0, [])
