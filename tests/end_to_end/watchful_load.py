"""People who ask all the time, and look at each answer to its end."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import httpx

_PEOPLE = 12
_MOST_REQUESTS = 50_000
_TOKENS = 6


class WatchfulLoad:
    """Half of the requests are for streams. Bounded."""

    def __init__(self, clients: Sequence[httpx.AsyncClient], words: Sequence[str]) -> None:
        self.answered = 0
        self.streamed = 0
        self.failures: list[str] = []
        self._clients = clients
        self._words = words
        self._stopped = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[WatchfulLoad]:
        """People ask inside the block; at its end they finish what they ask."""
        async with asyncio.TaskGroup() as tasks:
            for person in range(_PEOPLE):
                tasks.create_task(self._ask_on(Random(person)))
            try:
                yield self
            finally:
                self._stopped = True

    async def _ask_on(self, rng: Random) -> None:
        for number in itertools.count():
            if self._stopped or self.answered > _MOST_REQUESTS:
                return
            prompt = f"{' '.join(rng.choices(self._words, k=60))} {number}"
            ask = self._stream if rng.random() < 0.5 else self._plain
            body = {"model": "simulated", "prompt": prompt, "max_tokens": _TOKENS, "ignore_eos": True}
            try:
                await ask(rng.choice(self._clients), body)
            except (httpx.HTTPError, AssertionError, LookupError, ValueError) as error:
                self.failures.append(f"{ask.__name__}: {error!r}")
            self.answered += 1

    async def _plain(self, client: httpx.AsyncClient, body: dict[str, object]) -> None:
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] == _TOKENS

    async def _stream(self, client: httpx.AsyncClient, body: dict[str, object]) -> None:
        body = body | {"stream": True, "stream_options": {"include_usage": True}}
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            events = [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
        assert events[-1] == "[DONE]", events[-1]
        assert json.loads(events[-2])["usage"]["completion_tokens"] == _TOKENS
        finishes = [choice["finish_reason"] for event in events[:-1] for choice in json.loads(event)["choices"]]
        assert finishes[-1] == "length", events
        self.streamed += 1
