"""/v1/models."""

from __future__ import annotations

import json

import pytest

from gateway.errors import NoReplica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.observe.models_page import models_page
from tests.gateway.examples import a_pool


def test_the_union_keeps_fields() -> None:
    """Each model once, as its replica described it."""
    assert json.loads(models_page(a_pool())) == {
        "object": "list",
        "data": [{"id": "tiny"}, {"id": "ad1", "parent": "tiny"}],
    }


def test_nobody_has_answered() -> None:
    """503, not an empty list that a client would believe."""
    with pytest.raises(NoReplica):
        models_page(ReplicaPool())
