"""The official client, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.end_to_end.house import House, house


@pytest.fixture
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    async with house() as home, openai.AsyncOpenAI(base_url=f"{home.gateway.url}/v1", api_key="any") as api:
        yield api


async def test_chat(client: openai.AsyncOpenAI) -> None:
    """Plain and streamed, with usage."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    plain = await client.chat.completions.create(model="simulated", messages=messages, max_tokens=5)
    stream = await client.chat.completions.create(
        model="simulated",
        messages=messages,
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]

    assert plain.choices[0].message.content
    assert plain.usage is not None
    assert plain.usage.completion_tokens == 5
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


async def test_completions(client: openai.AsyncOpenAI) -> None:
    """Plain and streamed; text, several texts, token ids."""
    for prompt in ("Hello", ["one", "two"], [5, 6, 7], [[5, 6], [7, 8]]):
        plain = await client.completions.create(model="simulated", prompt=prompt, max_tokens=3)
        assert all(choice.text for choice in plain.choices)
    stream = await client.completions.create(model="simulated", prompt="Hello", max_tokens=3, stream=True)

    assert "".join([chunk.choices[0].text async for chunk in stream])


async def test_models_and_errors(client: openai.AsyncOpenAI) -> None:
    """The list keeps vLLM's fields; a wrong model is the client library's own NotFoundError."""
    models = await client.models.list()

    assert [(model.id, model.model_dump()["max_model_len"]) for model in models.data] == [("simulated", 16384)]
    with pytest.raises(openai.NotFoundError, match="'nope' does not exist"):
        await client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])


async def test_the_raw_answer_has_the_receipt() -> None:
    """Clients that look can read where the answer came from."""
    async with house() as home, openai.AsyncOpenAI(base_url=f"{home.gateway.url}/v1", api_key="any") as api:
        raw = await api.completions.with_raw_response.create(model="simulated", prompt="Hello", max_tokens=1)

    assert isinstance(home, House)
    assert raw.headers["x-prefixway-replica"] in "abc"
    assert raw.headers["x-request-id"]
