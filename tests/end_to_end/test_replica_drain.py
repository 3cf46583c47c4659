"""A replica is drained: nothing new goes there, what runs ends, then what was known of its caches is gone."""

from __future__ import annotations

import asyncio

from loadtest.replica import Fault
from tests.end_to_end.house import house
from tests.fakes.waiting import eventually

LONG = "tell me about the sea and its ships, and of the winds that drive them " * 40


async def test_a_drained_replica_ends_what_runs_and_is_forgotten() -> None:
    """Its stream ends in full and its entries stay till then; undrained, a replay of its events brings them back."""
    async with house(["a"]) as home:
        pool, index = home.gateway.pool, home.gateway.fellowship.memory
        (server,), (replica,) = pool.servers, pool.replicas
        faults = home.replicas["a"].faults
        await home.chat(LONG)
        faults.add(Fault(stall_after_chunks=1))
        running = asyncio.ensure_future(home.chat(LONG, max_tokens=9, stream=True))
        await eventually(lambda: faults.stalled == 1 and home.events_settled())
        before = index.block_owners()

        pool.set_drained(["a"])
        refused = await home.chat("x")
        draining = (server.drained, index.block_owners())
        faults.release()
        answer = await running
        await eventually(lambda: server.drained)
        drained = (index.block_owners(), home.gateway.fellowship.stats(replica.key))
        page = (await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/replicas")).json()[0]

        pool.set_drained([])
        await eventually(home.events_settled)
        again = await home.chat(LONG)

        assert before > 0
        assert refused.status_code == 503
        assert "a: draining" in refused.json()["error"]["message"]
        assert draining == (False, before)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert drained == (0, None)
        assert (page["draining"], page["drained"], page["inflight"]) == (True, True, 0)
        assert index.block_owners() >= before
        assert again.status_code == 200


async def test_what_is_known_from_sending_alone_goes_too() -> None:
    """Without events: after the drain nothing is expected there."""
    async with house(["a", "b"], kv_events="off") as home:
        first = (await home.chat(LONG)).headers["x-prefixway-replica"]
        follow_up = (await home.chat(LONG + " and?")).headers
        home.gateway.pool.set_drained([first])
        home.gateway.pool.set_drained([])
        after = (await home.chat(LONG + " or?")).headers

    assert (follow_up["x-prefixway-replica"], follow_up["x-prefixway-reason"]) == (first, "prefix")
    assert after["x-prefixway-reason"] != "prefix"
