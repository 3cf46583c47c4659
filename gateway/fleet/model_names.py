"""ModelNames: what a model's name in a request stands for, by what the servers say that they serve.

Synchronous state without I/O, kept by the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from gateway.errors import BadRequest, ModelNotFound, NoReplica
from gateway.fleet.model_card import ModelCard
from gateway.fleet.server import Server, faults_of


class ServedModel(NamedTuple):
    """What a model's name in a request stands for."""

    name: str
    namespace: str
    lora: str  # "": the base model itself


class ModelNames:
    """``servers``: all of them, as they are at any time. Call :meth:`index` when they or what they serve change."""

    def __init__(self, servers: Collection[Server]) -> None:
        self._servers = servers
        self._models: dict[str, ServedModel] = {}

    def knows(self, model: str) -> bool:
        return model in self._models

    def index(self) -> None:
        """One look-up a request. Where servers disagree on what a name means, the first configured one is right."""
        self._models = {
            card.id: ServedModel(card.id, server.namespace or "", card.id if card.parent else "")
            for server in reversed(list(self._servers))
            for card in server.cards
        }

    def resolve(self, model: str, alias: str = "") -> ServedModel:
        """What ``model`` ("" where the request names none) stands for. ``alias``: what the client called it.

        Raises ``NoReplica`` for an empty fleet, ``ModelNotFound``, or ``BadRequest`` where a name is needed.
        """
        served = self._models.get(model)
        if served is not None:
            return served
        if not self._servers:
            raise NoReplica("No replica is configured or discovered.")
        if not model:
            return self._only_model()
        if all(server.cards for server in self._servers):
            raise ModelNotFound(model, alias)
        self._check_answered(server for server in self._servers if not server.cards)
        return ServedModel(model, "", "")

    def cards(self) -> list[ModelCard]:
        """The union of what healthy servers serve, by id, in the order they were configured."""
        union: dict[str, ModelCard] = {}
        for server in self._servers:
            for card in server.cards if server.healthy else ():
                union.setdefault(card.id, card)
        return list(union.values())

    def _only_model(self) -> ServedModel:
        namespaces = sorted({server.namespace for server in self._servers if server.namespace})
        if len(namespaces) > 1:
            raise BadRequest(
                f"The request names no model; this gateway serves {', '.join(namespaces)}.",
                param="model",
                code="model_required",
            )
        if not namespaces:
            self._check_answered(self._servers)
        only = namespaces[0] if namespaces else ""
        return ServedModel(only, only, "")

    def _check_answered(self, servers: Iterable[Server]) -> None:
        """Raises ``NoReplica`` unless one of ``servers`` has been healthy."""
        if not any(server.was_healthy for server in servers):
            raise NoReplica("No replica has answered yet.", faults_of(self._servers))
