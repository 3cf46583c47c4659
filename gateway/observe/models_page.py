"""The body of /v1/models: the union of what the replicas serve, their fields kept."""

from __future__ import annotations

import json

from gateway.errors import NoReplica
from gateway.fleet.replica_pool import ReplicaPool


def models_page(pool: ReplicaPool) -> bytes:
    """OpenAI's list object. Raises ``NoReplica`` where no healthy replica named its models."""
    cards = pool.models()
    if not cards:
        raise NoReplica("No healthy replica has listed its models yet.")
    return json.dumps({"object": "list", "data": [card.fields for card in cards]}).encode()
