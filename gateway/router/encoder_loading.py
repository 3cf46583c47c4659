"""EncoderLoading: sees to it that every base model in the fleet gets its tokenizer, as soon as it is first seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import base_card
from gateway.fleet.replica import Replica
from gateway.prompt.encoders import EncoderRegistry


class EncoderLoading:
    """A listener of the pool. Loading takes seconds: requests meanwhile are routed by load."""

    def __init__(self, encoders: EncoderRegistry) -> None:
        self._encoders = encoders
        self._wanted: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._sources: dict[str, str] = {}

    def sources(self) -> Mapping[str, str]:
        """What encodes the prompts of each base model that is loaded: LocalEncoder, RemoteEncoder, AbsentEncoder."""
        return self._sources

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        card = base_card(replica.server.cards)
        model, root = (card.id, card.root) if card else (replica.key.namespace, "")
        if model not in self._seen:
            self._seen.add(model)
            self._wanted.put_nowait((model, root))

    def left(self, replica: Replica) -> None:
        """An encoder stays: its model may come back."""

    def process_changed(self, replica: Replica) -> None:
        """The tokenizer is the model's, not the process's."""

    async def run(self) -> None:
        """Load what is wanted, one after the other, until cancelled."""
        while True:
            model, root = await self._wanted.get()
            encoder = await self._encoders.load(model, root)
            self._sources[model] = type(encoder).__name__
