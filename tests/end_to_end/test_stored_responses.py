"""Responses that a replica keeps: whoever asks for one, by whichever gateway, reaches it."""

from __future__ import annotations

import httpx
import pytest

from tests.end_to_end.street import street
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.fakes.waiting import eventually

ASK = {"model": "real", "input": "x"}


async def reach_home(client: httpx.AsyncClient, created: httpx.Response | str, home: str) -> None:
    """Reading, ending and going on from it all reach its server, several times."""
    id_ = created if isinstance(created, str) else created.json()["id"]
    for _ in range(4):
        read = await client.get(f"/v1/responses/{id_}?starting_after=1")
        ended = await client.post(f"/v1/responses/{id_}/cancel")
        followed = await client.post("/v1/responses", json={**ASK, "previous_response_id": id_})
        answers = [read, ended, followed]

        assert [(each.status_code, each.json()["by"]) for each in answers] == [(200, home)] * 3
        assert {each.headers["x-prefixway-reason"].split(",")[0] for each in answers} == {"response"}
        assert ended.json()["status"] == "cancelled"


async def test_one_gateway(strategy: str) -> None:
    """Under every strategy; a chain of responses stays where it began."""
    async with street(strategy=strategy) as built:
        (client,) = built.clients
        for _ in range(3):
            created = await client.post("/v1/responses", json=ASK)
            home = created.json()["by"]
            await reach_home(client, created, home)
            followed = await client.post("/v1/responses", json={**ASK, "previous_response_id": created.json()["id"]})
            await reach_home(client, followed, home)


async def test_a_drained_replica_still_answers_for_what_it_keeps() -> None:
    """New responses are made elsewhere."""
    async with street(strategy="round_robin") as built:
        (client,) = built.clients
        created = await client.post("/v1/responses", json=ASK)
        home = created.json()["by"]
        built.gateways[0].pool.set_drained([home])

        await reach_home(client, created, home)
        assert home not in {(await client.post("/v1/responses", json=ASK)).json()["by"] for _ in range(4)}


async def test_an_unknown_response() -> None:
    """A replica says so."""
    async with street() as built:
        (client,) = built.clients
        for answer in (
            await client.get("/v1/responses/resp_x"),
            await client.post("/v1/responses/resp_x/cancel"),
            await client.post("/v1/responses", json={**ASK, "previous_response_id": "resp_x"}),
        ):
            assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Response not found.")


async def test_its_alias_goes_with_it() -> None:
    """Whoever reads it, by whichever gateway, sees the name by which it was made; who names the model sees its name."""
    names = ["nick", "real"]
    with RedisServer(FLAVOURS[0]) as redis:
        async with street(2, strategy="round_robin", redis_url=redis.url, model_aliases="nick=real") as built:
            made = [await built.clients[0].post("/v1/responses", json={**ASK, "model": name}) for name in names]
            await eventually(lambda: len(redis.client().keys("*response=*")) == len(names))
            for name, created in zip(names, made):
                id_ = created.json()["id"]
                for client in built.clients:
                    read = await client.get(f"/v1/responses/{id_}")
                    ended = await client.post(f"/v1/responses/{id_}/cancel")
                    followed = await client.post("/v1/responses", json={**ASK, "previous_response_id": id_})

                    assert [each.json()["model"] for each in (created, read, ended)] == [name] * 3
                    assert followed.json()["model"] == "real"


async def test_what_is_not_to_be_stored_is_told_to_nobody() -> None:
    """Redis is told of the other one, which came later."""
    with RedisServer(FLAVOURS[0]) as redis:
        async with street(redis_url=redis.url) as built:
            (client,) = built.clients
            await client.post("/v1/responses", json={**ASK, "store": False})
            await client.post("/v1/responses", json=ASK)
            await eventually(lambda: len(redis.client().keys("*response=*")) > 0)

            assert len(redis.client().keys("*response=*")) == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_another_gateway_finds_it(flavour: str) -> None:
    """With reading, ending and going on."""
    with RedisServer(flavour) as redis:
        async with street(2, strategy="round_robin", redis_url=redis.url) as built:
            one, two = built.clients
            created = await one.post("/v1/responses", json=ASK)
            await eventually(lambda: len(redis.client().keys("*response=*")) > 0)
            await reach_home(two, created, created.json()["by"])


async def test_another_gateway_finds_what_is_still_being_streamed() -> None:
    """From the stream's first event on."""
    with RedisServer(FLAVOURS[0]) as redis:
        async with street(2, strategy="round_robin", redis_url=redis.url) as built:
            one, two = built.clients
            for engine in built.engines.values():
                engine.going_on.clear()
            async with one.stream("POST", "/v1/responses", json={**ASK, "stream": True}) as created:
                home = created.headers["x-prefixway-replica"]
                await eventually(lambda: len(redis.client().keys("*response=*")) > 0)
                await reach_home(two, f"resp_{home}0", home)
                for engine in built.engines.values():
                    engine.going_on.set()
                assert b"response.completed" in await created.aread()
