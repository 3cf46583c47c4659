"""Player: asks an OpenAI server for what a trace says, when it says it, and notes what came of each request.

One task a session: wait, ask with token ids, read the streamed answer, go on. Does not know what is behind the URL.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from loadtest.closed_loop import REPLICA_HEADER, TIMEOUT_S
from loadtest.live.token_blocks import TokenBlocks
from loadtest.replay.trace import Session, Trace, Turn


class Answered(NamedTuple):
    """One request. Times are seconds since the play began; ``cached_tokens`` as its usage tells."""

    arrived_s: float
    first_token_s: float
    finished_s: float
    replica: str
    turn: Turn
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Broken:
    """One that got no whole answer, and why."""

    session: str
    why: str


class Player:
    """``answered`` and ``broken`` grow while :meth:`play` runs. ``vocabulary``: tokens that prompts may have."""

    def __init__(self, base_url: str, model: str, vocabulary: Sequence[int]) -> None:
        self.answered: list[Answered] = []
        self.broken: list[Broken] = []
        self._base_url = base_url
        self._model = model
        self._vocabulary = vocabulary

    async def play(self, trace: Trace) -> None:
        """The whole trace, from now on, to its last answer."""
        blocks = TokenBlocks(self._vocabulary, trace.block_tokens)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            httpx.AsyncClient(base_url=self._base_url, timeout=TIMEOUT_S, limits=limits, trust_env=False) as client,
            asyncio.TaskGroup() as tasks,
        ):
            clock = _since_now()
            for number, session in enumerate(trace.sessions):
                tasks.create_task(self._session(client, clock, blocks, number, session))

    async def _session(
        self, client: httpx.AsyncClient, clock: Callable[[], float], blocks: TokenBlocks, number: int, session: Session
    ) -> None:
        after_s = session.begins_s
        for place, turn in enumerate(session.turns):
            await asyncio.sleep(max(0.0, after_s + turn.think_s - clock()))
            prompt = blocks.prompt(turn, f"{number} {place}")
            try:
                self.answered.append(await self._ask(client, clock, turn, prompt, session.key))
            except (httpx.HTTPError, ValueError) as error:
                self.broken.append(Broken(session.key, f"{type(error).__name__}: {error}"))
            after_s = clock()

    async def _ask(
        self, client: httpx.AsyncClient, clock: Callable[[], float], turn: Turn, prompt: list[int], session: str
    ) -> Answered:
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": turn.output_tokens,
            "ignore_eos": True,
            "session_id": session,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        arrived_s = first_token_s = clock()
        received: list[bytes] = []
        async with client.stream("POST", "/v1/completions", json=body) as response:
            async for data in response.aiter_raw():
                first_token_s = first_token_s if received else clock()
                received.append(data)
        finished_s = clock()
        response.raise_for_status()
        cached_tokens = cached_tokens_of(b"".join(received))
        replica = response.headers.get(REPLICA_HEADER, "")
        return Answered(arrived_s, first_token_s, finished_s, replica, turn, cached_tokens)


def cached_tokens_of(stream: bytes) -> int:
    """What the usage chunk of a whole streamed answer says. Raises ``ValueError`` where there is none."""
    events = [event.removeprefix(b"data:").strip() for event in stream.split(b"\n\n")]
    if b"[DONE]" not in events:
        raise ValueError("the stream ended early")
    for event in reversed(events):
        if event not in (b"", b"[DONE]"):
            return _cached_tokens(json.loads(event))
    raise ValueError("the stream has no chunk")


def _cached_tokens(chunk: Any) -> int:
    try:
        return int(chunk["usage"]["prompt_tokens_details"]["cached_tokens"])
    except (KeyError, TypeError) as error:
        raise ValueError("the last chunk does not tell of cached tokens") from error


def _since_now() -> Callable[[], float]:
    time = asyncio.get_running_loop().time
    began_s = time()
    return lambda: time() - began_s
