"""Names of models stand for what the servers say that they serve."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, ModelNotFound, NoReplica
from gateway.fleet.breaker import Breaker
from gateway.fleet.model_card import parse_models
from gateway.fleet.model_names import ModelNames, ServedModel
from gateway.fleet.server import Server
from gateway.fleet.server_spec import ServerSpec

BASE: dict[str, object] = {"id": "tiny", "root": "/models/tiny", "parent": None, "max_model_len": 1024}
LORA: dict[str, object] = {"id": "ad1", "root": "/lora/ad1", "parent": "tiny"}
OTHER: dict[str, object] = {"id": "other", "x": 1}


def _server(id_: str, *cards: dict[str, object], healthy: bool = True) -> Server:
    server = Server(ServerSpec.parse(f"{id_}=http://{id_}:1"), Breaker())
    server.cards = parse_models({"data": list(cards)})
    if healthy:
        server.probe_answered()
    return server


def _names(*servers: Server) -> ModelNames:
    names = ModelNames(servers)
    names.index()
    return names


@pytest.mark.parametrize("model", ["tiny", ""])
def test_an_empty_fleet_says_so(model: str) -> None:
    """503 with the reason, for any model."""
    with pytest.raises(NoReplica, match="No replica is configured"):
        _names().resolve(model)


def test_names_stand_for_base_models_and_adapters() -> None:
    """An adapter's name means its base's caches and its own chains; no name means the only model."""
    names = _names(_server("a", BASE, LORA))

    assert names.resolve("tiny") == ServedModel("tiny", "tiny", "")
    assert names.resolve("ad1") == ServedModel("ad1", "tiny", "ad1")
    assert names.resolve("") == ServedModel("tiny", "tiny", "")
    assert [names.knows(name) for name in ("tiny", "ad1", "", "other")] == [True, True, False, False]


def test_an_unknown_model_is_not_found_and_two_models_need_a_name() -> None:
    """404 for the one, 400 for the other."""
    names = _names(_server("a", BASE), _server("b", OTHER))

    with pytest.raises(ModelNotFound, match="'nope' does not exist"):
        names.resolve("nope")
    with pytest.raises(ModelNotFound, match="'nope', which 'prod' stands for,"):
        names.resolve("nope", "prod")
    with pytest.raises(BadRequest, match="names no model; this gateway serves other, tiny"):
        names.resolve("")


def test_where_servers_disagree_the_first_one_is_right() -> None:
    """An adapter of one base here, of another there."""
    names = _names(_server("a", BASE, LORA), _server("b", OTHER, {**LORA, "parent": "other"}))

    assert names.resolve("ad1").namespace == "tiny"


@pytest.mark.parametrize("model", ["tiny", ""])
def test_before_any_server_answered_nothing_is_known(model: str) -> None:
    """503: which servers there are, and what is wrong with them, is apart from what every client may read."""
    with pytest.raises(NoReplica) as refused:
        _names(_server("a", healthy=False), _server("b", healthy=False)).resolve(model)

    assert str(refused.value) == "No replica has answered yet."
    assert refused.value.detail == "a: not probed yet; b: not probed yet"


def test_a_server_that_tells_no_models_may_serve_any() -> None:
    """Its caches are one namespace without a name."""
    names = _names(_server("a"))

    assert [names.resolve(model) for model in ("any", "")] == [ServedModel("any", "", ""), ServedModel("", "", "")]


def test_what_is_served_is_the_union_of_the_healthy() -> None:
    """By id, in order, fields kept."""
    names = _names(_server("a", BASE), _server("b", BASE, OTHER), _server("c", LORA, healthy=False))

    assert [card.fields for card in names.cards()] == [BASE, OTHER]
