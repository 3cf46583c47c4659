"""ClosedLoop: plays conversations against an OpenAI server and notes what each turn got.

One task a person: think, send the conversation so far, read the streamed answer, go on. Measures the time to
the first body byte. Does not know what is behind the URL.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import httpx

from loadtest.workload import Dialogue, Turn

TIMEOUT_S = 120.0
#: What the gateway calls the replica that answered.
REPLICA_HEADER = "x-prefixway-replica"


class Sample(NamedTuple):
    """What one turn got. ``error`` is ``""`` where the answer was complete; ``replica`` where nobody said."""

    dialogue: str
    turn: int
    ttft_s: float
    total_s: float
    prompt_tokens: int
    cached_tokens: int
    replica: str
    error: str


class Reply(NamedTuple):
    """A streamed answer, read to its end."""

    text: str
    prompt_tokens: int
    cached_tokens: int


class ClosedLoop:
    """``samples`` grows while :meth:`run` runs. ``clock``: seconds, monotonic.

    With several URLs each turn goes to a random one, the same for the same ``seed``.
    """

    def __init__(
        self, base_url: str | Sequence[str], model: str, *, seed: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.samples: list[Sample] = []
        self.in_flight = 0
        self._base_urls = (base_url,) if isinstance(base_url, str) else tuple(base_url)
        self._seed = seed
        self._model = model
        self._clock = clock

    async def run(self, dialogues: Sequence[Dialogue]) -> None:
        """Play all conversations at once, each to its end."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits, trust_env=False) as client,
            asyncio.TaskGroup() as people,
        ):
            for dialogue in dialogues:
                people.create_task(self._converse(client, dialogue))

    async def _converse(self, client: httpx.AsyncClient, dialogue: Dialogue) -> None:
        messages = [{"role": "system", "content": dialogue.system_prompt}]
        for number, turn in enumerate(dialogue.turns):
            await asyncio.sleep(turn.think_s)
            messages.append({"role": "user", "content": turn.text})
            self.in_flight += 1
            sample, text = await self._ask(client, dialogue.id, number, turn, messages)
            self.in_flight -= 1
            self.samples.append(sample)
            messages.append({"role": "assistant", "content": text})

    async def _ask(
        self,
        client: httpx.AsyncClient,
        dialogue: str,
        number: int,
        turn: Turn,
        messages: list[dict[str, str]],
    ) -> tuple[Sample, str]:
        body = {
            "model": self._model,
            "messages": messages,
            "max_tokens": turn.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        url = Random(f"{self._seed} {dialogue} {number}").choice(self._base_urls) + "/v1/chat/completions"
        started_s = first_s = self._clock()
        received: list[bytes] = []
        reply, replica, error = Reply("", 0, 0), "", ""
        try:
            async with client.stream("POST", url, json=body) as response:
                replica = response.headers.get(REPLICA_HEADER, "")
                async for data in response.aiter_raw():
                    first_s = first_s if received else self._clock()
                    received.append(data)
            reply = read_stream(b"".join(received))
            error = "" if response.status_code == 200 else f"status {response.status_code}"
        except (httpx.HTTPError, ValueError) as broken:
            error = type(broken).__name__
        ttft_s, total_s = first_s - started_s, self._clock() - started_s
        tokens = reply.prompt_tokens, reply.cached_tokens
        return Sample(dialogue, number, ttft_s, total_s, *tokens, replica, error), reply.text


def read_stream(data: bytes) -> Reply:
    """A streamed chat answer with its usage chunk. An error body reads as an empty reply.

    Raises ``ValueError`` where an event is no chunk of a chat or the stream ends before ``[DONE]``.
    """
    if data and not data.startswith(b"data:"):
        return Reply("", 0, 0)
    text: list[str] = []
    usage: dict[str, Any] = {}
    is_done = False
    for event in data.split(b"\n\n"):
        payload = event.removeprefix(b"data:").strip()
        if payload == b"[DONE]":
            is_done = True
        elif payload:
            chunk = _object(json.loads(payload))
            text += [_object(_object(choice).get("delta")).get("content") or "" for choice in chunk.get("choices", ())]
            usage = _object(chunk.get("usage") or usage)
    if not is_done:
        raise ValueError("the stream ended early")
    details = _object(usage.get("prompt_tokens_details") or {})
    return Reply("".join(text), usage.get("prompt_tokens", 0), details.get("cached_tokens") or 0)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an event is no chunk of a chat")
    return value


def percentile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` (0..1) of ``values`` do not exceed; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def every(seconds: float) -> AsyncIterator[None]:
    """Yield at once and then after every ``seconds``, for as long as somebody asks."""
    while True:
        yield
        await asyncio.sleep(seconds)
