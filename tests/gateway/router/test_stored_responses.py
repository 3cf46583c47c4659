"""The router and stored responses: a request that refers to one goes to the replica that keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import NoReplica, ResponseNotFound
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.response_home import Home
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.response_homes import ResponseHomes
from router_strategies import available
from tests.gateway.examples import MODEL, Clock, a_pool, a_router


def _following(**fields: Any) -> InferenceRequest:
    """One that goes on from the response ``resp_1``."""
    body = {"input": "x", "previous_response_id": "resp_1", **fields}
    return InferenceRequest.parse("responses", json.dumps(body).encode())


def _asking() -> InferenceRequest:
    """One that reads the response ``resp_1``, and names no model."""
    return InferenceRequest.parse("response", b"", response_id="resp_1")


@pytest.mark.parametrize("request_", [_asking(), _following(), _following(model=MODEL)])
@pytest.mark.parametrize("strategy", available())
async def test_a_stored_response_is_asked_for_where_it_is_kept(request_: InferenceRequest, strategy: str) -> None:
    """Whatever the strategy, and though its server is drained or pushes back: nobody else has it."""
    pool, homes = a_pool(), ResponseHomes(clock=Clock())
    router = a_router(pool, strategy=strategy, homes=homes)
    attempt = router.attempt(router.prepare_now(InferenceRequest.parse("responses", b"{}")) or pytest.fail("waits"))
    attempt.responded("resp_1")
    attempt.end(Outcome.BUSY)
    pool.set_drained([attempt.server_id])

    for _ in range(4):
        prepared = router.prepare_now(request_)
        assert prepared is not None
        decision = router.attempt(prepared).decision
        assert (decision.replica_id, decision.reason) == (attempt.server_id, "response")


async def test_a_home_that_was_tried_is_the_last_one_to_try() -> None:
    """Another replica would say that there is no such response, which is not true."""
    homes = ResponseHomes(clock=Clock())
    homes.learned("resp_1", Home("b"))
    router = a_router(a_pool(), homes=homes)

    with pytest.raises(NoReplica):
        router.attempt(await router.prepare(_asking()), frozenset({"b"}))


@pytest.mark.parametrize("fate", ["gone", "unhealthy", "unknown", "another model"])
async def test_without_its_home_a_request_goes_as_usual(fate: str) -> None:
    """The replica that gets it answers that it does not know the response."""
    pool, homes = a_pool(), ResponseHomes(clock=Clock())
    if fate != "unknown":
        homes.learned("resp_1", Home("gone" if fate == "gone" else "b"))
    home = next(server for server in pool.servers if server.id == "b")
    if fate == "another model":
        pool.identify(home, parse_models({"data": [{"id": "other"}]}), {})
    for _ in range(3 if fate == "unhealthy" else 0):
        home.probe_missed("gone")
    router = a_router(pool, homes=homes)

    decision = router.attempt(await router.prepare(_following(model=MODEL))).decision

    assert decision.reason != "response"


async def test_who_names_no_model_is_served_by_the_homes_model() -> None:
    """Where there are several models, and nobody knows the response: 404, as the replica would answer."""
    pool, homes = a_pool(), ResponseHomes(clock=Clock())
    pool.identify(next(iter(pool.servers)), parse_models({"data": [{"id": "other"}]}), {})
    router = a_router(pool, homes=homes)
    with pytest.raises(ResponseNotFound):
        router.prepare_now(_asking())

    for server_id, model in (("a", "other"), ("b", MODEL)):
        homes.learned("resp_1", Home(server_id))
        prepared = router.prepare_now(_asking())
        assert prepared is not None
        assert (prepared.served.name, router.attempt(prepared).decision.replica_id) == (model, server_id)


@pytest.mark.parametrize(
    ("request_", "alias"), [(_asking(), "nick"), (_following(), "nick"), (_following(model=MODEL), "")]
)
def test_a_response_is_answered_under_the_alias_by_which_it_was_made(request_: InferenceRequest, alias: str) -> None:
    """Unless the request itself names the model."""
    router = a_router(a_pool(), homes=ResponseHomes(clock=Clock()))
    making = replace(InferenceRequest.parse("responses", b'{"model": "tiny"}'), alias="nick")
    made, asked = router.prepare_now(making), InferenceRequest.parse("response", b"", response_id="resp_1")
    assert made is not None
    router.attempt(made).responded("resp_1")
    prepared, read = router.prepare_now(request_), router.prepare_now(asked)

    assert prepared is not None
    assert read is not None
    assert (made.alias, prepared.alias, read.alias) == ("nick", alias, "nick")


def test_what_is_not_stored_has_no_home() -> None:
    """The client said so: neither here nor elsewhere is anything remembered."""
    homes = ResponseHomes(clock=Clock())
    router = a_router(a_pool(), homes=homes)
    for number, body in enumerate((b'{"store": false}', b'{"store": true}', b"{}")):
        prepared = router.prepare_now(InferenceRequest.parse("responses", body))
        assert prepared is not None
        router.attempt(prepared).responded(f"resp_{number}")

    assert [homes.known(f"resp_{number}") is not None for number in range(3)] == [False, True, True]


async def test_what_another_gateway_may_know_is_waited_for() -> None:
    """Only where it is not known here."""
    router = a_router(a_pool(), homes=ResponseHomes(_Elsewhere(), clock=Clock()))

    assert router.prepare_now(_asking()) is None
    assert router.attempt(await router.prepare(_asking())).decision.replica_id == "b"
    assert router.prepare_now(_asking()) is not None


class _Elsewhere:
    """Every response is kept by ``b``."""

    async def find(self, response_id: str) -> Home | None:
        return Home("b")

    def tell(self, response_id: str, home: Home) -> None:
        raise AssertionError
