"""/explain of a running gateway, beside what it then does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loadtest.replica import ReplicaOptions
from tests.end_to_end.house import FAST, House, house
from tests.fakes.waiting import eventually

WORDS = "tell me about the sea and the wind " * 12
BODIES: list[Mapping[str, Any]] = [
    {"messages": [{"role": "user", "content": WORDS}]},
    {"messages": [{"role": "user", "content": WORDS}, {"role": "assistant", "content": "no"}]},
    {"prompt": WORDS, "cache_salt": "tenant"},
    {"prompt": WORDS, "model": "ada"},
]


async def _explain(built: House, body: bytes) -> dict[str, Any]:
    url = f"http://127.0.0.1:{built.gateway.admin.port}/explain"
    page: dict[str, Any] = (await built.client.post(url, content=body)).raise_for_status().json()
    return page


async def test_who_is_named_gets_the_request(strategy: str) -> None:
    """Under every strategy, before and after it is known who holds what; the receipt says the same."""
    options = ReplicaOptions(speeds=FAST, loras=("ada",))
    async with house(("a", "b", "c"), options, strategy=strategy) as built:
        for body in BODIES * 3:
            sent = json.dumps({"model": "simulated", "max_tokens": 2, **body}).encode()
            choice = (await _explain(built, sent))["choice"]
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            answer = await built.client.post(path, content=sent, headers={"content-type": "application/json"})

            assert answer.headers["x-prefixway-replica"] == choice["replica"]
            assert answer.headers["x-prefixway-reason"] == choice["reason"]
            assert answer.headers.get("x-prefixway-matched", "") == choice["matched"]
            await eventually(built.events_settled)


async def test_nothing_of_the_prompt_is_told() -> None:
    """However it is asked."""
    async with house(("a",)) as built:
        page = await _explain(built, json.dumps({"messages": [{"role": "user", "content": "sesame " * 40}]}).encode())

    assert page["prompt"]["tokens"] > 40
    assert "sesame" not in json.dumps(page)
