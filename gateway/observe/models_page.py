"""The body of /v1/models: the union of what the replicas serve, their fields kept, and the aliases."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.errors import NoReplica
from gateway.fleet.replica_pool import ReplicaPool

_NONE: Mapping[str, str] = {}


def models_page(pool: ReplicaPool, aliases: Mapping[str, str] = _NONE) -> bytes:
    """OpenAI's list object: each name once. ``aliases``: what each stands for; its entry is that model's.

    Raises ``NoReplica`` where no healthy replica named its models.
    """
    entries: dict[str, Mapping[str, object]] = {card.id: card.fields for card in pool.names.cards()}
    if not entries:
        raise NoReplica(
            "No replica that lists models is healthy."
            if pool.was_ready
            else "No healthy replica has listed its models yet."
        )
    named = {alias: {**entries[model], "id": alias} for alias, model in aliases.items() if model in entries}
    return json.dumps({"object": "list", "data": list((entries | named).values())}).encode()
