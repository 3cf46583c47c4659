"""/v1/models."""

from __future__ import annotations

import json

import pytest

from gateway.errors import NoReplica
from gateway.fleet.model_card import parse_models
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.observe.models_page import models_page
from tests.gateway.examples import a_pool


def test_the_union_keeps_fields() -> None:
    """Each model once, as its replica described it."""
    assert json.loads(models_page(a_pool())) == {
        "object": "list",
        "data": [{"id": "tiny"}, {"id": "ad1", "parent": "tiny"}],
    }


def test_the_replicas_fields_stay() -> None:
    """All that vLLM says of a model, and what only one replica serves; of two descriptions the first; nothing of a
    replica that is not healthy.
    """
    pool = ReplicaPool()
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1,c=http://c:1"))
    base = {"id": "m", "object": "model", "root": "/models/m", "parent": None, "max_model_len": 4096}
    lora = {"id": "l", "root": "/loras/l", "parent": "m", "permission": [{"id": "p", "allow_view": True}]}
    for server, entries in zip(pool.servers, ([base], [{**base, "max_model_len": 1}, lora], [{"id": "other"}])):
        pool.identify(server, parse_models({"data": entries}), {})
        if server.id != "c":
            server.probe_answered()

    assert json.loads(models_page(pool))["data"] == [base, lora]


def test_nobody_has_answered() -> None:
    """503, not an empty list that a client would believe."""
    with pytest.raises(NoReplica):
        models_page(ReplicaPool())


def test_aliases_are_listed() -> None:
    """As the model that they stand for, which keeps its own entry; not while nobody serves it."""
    page = json.loads(models_page(a_pool(), {"nick": "ad1", "gone": "other"}))

    assert page["data"] == [{"id": "tiny"}, {"id": "ad1", "parent": "tiny"}, {"id": "nick", "parent": "tiny"}]


def test_an_alias_stands_before_a_model_of_its_name() -> None:
    """Requests for it go to the other model; no name is there twice."""
    page = json.loads(models_page(a_pool(), {"tiny": "ad1"}))

    assert page["data"] == [{"id": "tiny", "parent": "tiny"}, {"id": "ad1", "parent": "tiny"}]


def test_those_who_listed_models_are_down() -> None:
    """It says so, and not that they have still to come."""
    pool = a_pool()
    for server in pool.servers:
        for _ in range(3):
            server.probe_missed("down")

    with pytest.raises(NoReplica, match="No replica that lists models is healthy") as refused:
        models_page(pool)
    assert "yet" not in str(refused.value)
