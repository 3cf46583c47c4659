"""A steady load in a process of its own: short questions on a few long beginnings, to several gateways in turn."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

import httpx

from benchmarks.other_process import Parent
from loadtest.replica.model_folder import ModelFolder

MODEL = "simulated"
_PEOPLE = 8
_THINK_S = 0.15
_BEGINNINGS, _BEGINNING_WORDS, _QUESTION_WORDS = 8, 1500, 60


class Sample(NamedTuple):
    """One request. ``error``: "" or what went wrong. Seconds; ``began_s`` by a clock that processes share."""

    began_s: float
    ttft_s: float
    gateway: int
    reason: str
    error: str


class SteadyLoad:
    """People who ask, think and ask again, each time another gateway."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        words = ModelFolder().words
        self._words = words
        self._beginnings = [" ".join(Random(n).choices(words, k=_BEGINNING_WORDS)) for n in range(_BEGINNINGS)]
        self._samples: list[Sample] = []
        self._going = asyncio.Event()
        self._in_flight = 0

    async def go(self) -> None:
        self._going.set()

    async def pause(self) -> None:
        """Return when nothing is under way."""
        self._going.clear()
        while self._in_flight:  # noqa: ASYNC110 - two lines beat a condition variable
            await asyncio.sleep(0.005)

    async def samples(self) -> list[Sample]:
        """Those since the last call."""
        taken, self._samples = self._samples, []
        return taken

    async def person(self, number: int, client: httpx.AsyncClient) -> None:
        """Until cancelled."""
        rng = Random(1000 + number)
        for at in itertools.count(number):
            await self._going.wait()
            self._in_flight += 1
            try:
                self._samples.append(await self._ask(client, at % len(self._urls), rng))
            finally:
                self._in_flight -= 1
            await asyncio.sleep(rng.uniform(0.5, 1.5) * _THINK_S)

    async def _ask(self, client: httpx.AsyncClient, gateway: int, rng: Random) -> Sample:
        question = " ".join(rng.choices(self._words, k=_QUESTION_WORDS))
        prompt = f"{rng.choice(self._beginnings)} {question}"
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 4, "stream": True}
        began_s, first_s, reason, error, end = time.monotonic(), 0.0, "", "", b""
        try:
            async with client.stream("POST", f"{self._urls[gateway]}/v1/completions", json=body) as answer:
                reason = answer.headers.get("x-prefixway-reason", "")
                async for data in answer.aiter_raw():
                    first_s = first_s or time.monotonic()
                    end = data
            if answer.status_code != 200 or not end.endswith(b"[DONE]\n\n"):
                error = f"{answer.status_code} {end[-100:]!r}"
        except httpx.HTTPError as failure:
            error = repr(failure)
        return Sample(began_s, first_s - began_s, gateway, reason, error)


async def put_load(parent: Parent, urls: Sequence[str]) -> None:
    """For :class:`~benchmarks.other_process.OtherProcess`: it can be told ``go``, ``pause`` and ``samples``."""
    load = SteadyLoad(urls)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as client, asyncio.TaskGroup() as tasks:
        people = [tasks.create_task(load.person(number, client)) for number in range(_PEOPLE)]
        with suppress(asyncio.CancelledError):
            await parent.obey({"go": load.go, "pause": load.pause, "samples": load.samples})
        for person in people:
            person.cancel()
