"""EncoderLoading: sees to it that every base model in the fleet gets its tokenizer, as soon as it is first seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import base_card
from gateway.fleet.replica import Replica
from gateway.prompt.encoder import LocalEncoder
from gateway.prompt.encoders import EncoderRegistry
from gateway.supervisor import keep_running


class EncoderLoading:
    """A listener of the pool. Loading takes seconds: requests meanwhile are routed by load.

    A model whose tokenizer is not found is looked for again, later and later: a hub may come back.
    """

    def __init__(self, encoders: EncoderRegistry, *, retry_s: float = 30.0, longest_retry_s: float = 600.0) -> None:
        self._encoders = encoders
        self._retry_s = retry_s
        self._longest_retry_s = longest_retry_s
        self._wanted: dict[str, str] = {}  # base model -> its root in /v1/models
        self._changed = asyncio.Event()
        self._sources: dict[str, str] = {}

    def sources(self) -> Mapping[str, str]:
        """What encodes the prompts of each base model: LocalEncoder, RemoteEncoder, AbsentEncoder."""
        return self._sources

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        card = base_card(replica.server.cards)
        model, root = (card.id, card.root) if card else (replica.key.namespace, "")
        if model not in self._wanted:
            self._wanted[model] = root
            self._changed.set()

    def left(self, replica: Replica) -> None:
        """An encoder stays: its model may come back."""

    def process_changed(self, replica: Replica) -> None:
        """The tokenizer is the model's, not the process's."""

    async def run(self) -> None:
        """Load what is wanted, each model by a task of its own, until cancelled."""
        started: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for model in self._wanted.keys() - started:
                    started.add(model)
                    load = partial(self._load_until_local, model, self._wanted[model])
                    group.create_task(keep_running(load, f"loading the tokenizer of {model}", pause_s=self._retry_s))
                await self._changed.wait()

    async def _load_until_local(self, model: str, root: str) -> None:
        pause_s = self._retry_s
        while not isinstance(encoder := await self._encoders.load(model, root), LocalEncoder):
            self._sources[model] = type(encoder).__name__
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._longest_retry_s)
        self._sources[model] = type(encoder).__name__
