"""Prompts of 200,000 tokens and small ones at once: the small ones do not wait until the large ones are tokenized."""

from __future__ import annotations

import asyncio
import json
from random import Random

from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.end_to_end.beside import gateway_beside
from tests.fakes.raw_client import RawAnswer, RawClient, get, post
from tests.fakes.scripted_server import ScriptedServer, Wire, answer

AT_ONCE, ROUNDS, TOKENS = 10, 3, 200_000


async def answers(wire: Wire) -> None:
    """At once."""
    models = wire.request.line.startswith(b"GET /v1/models ")
    await wire.send(answer(b'{"data": [{"id": "m"}]}' if models else b"{}"))


def a_chat(text: str) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 1}
    return post(json.dumps(body).encode(), path="/v1/chat/completions")


def a_large_chat(number: int) -> bytes:
    """Of words that no cache has seen."""
    rng = Random(number)
    return a_chat(" ".join(f"{rng.randrange(16**12):x}" for _ in range(TOKENS // 9)))


async def test_small_requests_overtake_large_ones() -> None:
    """Ten large ones are under way all the time, and small ones are answered between them, and so is /health."""
    async with ScriptedServer(answers) as server:
        url = server.origin.url
        async with gateway_beside([url], strategy="kv_aware", tokenizer=str(DEFAULT_FOLDER)) as gateway:
            await asyncio.to_thread(gateway.wait, lambda: "m" in gateway.status()["models"])
            overtaking, large = await overtaken(int(gateway.url.rpartition(":")[2]))

    for answered in large:
        assert int(answered.value("x-prefixway-matched").split(b",")[0].removeprefix(b"prompt=")) >= TOKENS
    assert overtaking > 0


async def overtaken(port: int) -> tuple[int, list[RawAnswer]]:
    """How many small requests were answered, together with /health, before the large ones were."""
    chats = [[a_large_chat(ROUNDS * number + round_) for round_ in range(ROUNDS)] for number in range(AT_ONCE)]
    large = [asyncio.ensure_future(ask_in_turn(port, some)) for some in chats]
    overtaking = number = 0
    async with RawClient(port) as client:
        while not all(asking.done() for asking in large):
            number += 1
            answered = await client.ask(a_chat(f"hello {number}"))
            healthy = await client.ask(get("/health"))
            assert (answered.status, healthy.status) == (200, 200)
            overtaking += not all(asking.done() for asking in large)
    return overtaking, [answered for asking in large for answered in await asking]


async def ask_in_turn(port: int, chats: list[bytes]) -> list[RawAnswer]:
    async with RawClient(port) as client:
        return [await client.ask(chat) for chat in chats]
