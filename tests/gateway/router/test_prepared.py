"""What a cache can spare of a prompt."""

from __future__ import annotations

import json

import pytest

from gateway.prompt.inference_request import InferenceRequest
from gateway.router.prepared import matchable_chains
from tests.gateway.examples import MODEL, a_pool, a_router


@pytest.mark.parametrize(("count", "blocks"), [(15, 0), (16, 0), (17, 1), (32, 1), (33, 2)])
def test_never_the_block_of_the_last_token(count: int, blocks: int) -> None:
    """floor((n-1)/16) blocks."""
    chain = list(range(count // 16))

    assert len(matchable_chains({16: chain}, count)[16]) == blocks


async def test_work_is_guessed_from_the_size_where_tokens_are_unknown() -> None:
    """Four bytes a token."""
    router = a_router(a_pool())
    body = json.dumps({"model": MODEL, "prompt": "x" * 4000}).encode()
    unknown = await router.prepare(InferenceRequest.parse("completions", body))
    known = await router.prepare(
        InferenceRequest.parse("completions", json.dumps({"model": MODEL, "prompt": [1] * 100}).encode())
    )

    assert unknown.work_tokens == len(body) // 4
    assert known.work_tokens == 100


@pytest.mark.parametrize("strategy", ["round_robin", "kv_aware"])
async def test_a_picture_is_not_its_bytes_in_tokens(strategy: str) -> None:
    """Whether anybody reads the prompt or not."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    contents: list[object] = [[image], "x" * 1_000_000, "x" * 2_000]
    bodies = [{"model": MODEL, "messages": [{"role": "user", "content": content}]} for content in contents]
    requests = [InferenceRequest.parse("chat", json.dumps(body).encode()) for body in bodies]
    router = a_router(a_pool(), strategy=strategy)
    guesses = [(await router.prepare(request)).work_tokens for request in requests]

    assert guesses == [1_024, 16_384, requests[2].size // 4]


async def test_a_request_that_reads_no_cache_matches_nothing() -> None:
    """Its chain is booked where it goes, and looked up nowhere."""
    router = a_router(a_pool())
    body = json.dumps({"model": MODEL, "prompt": [1] * 100, "prompt_logprobs": 1}).encode()
    prepared = await router.prepare(InferenceRequest.parse("completions", body))

    assert prepared.matchable == {}
    assert len(prepared.chains[16]) == 6


async def test_an_answer_is_no_longer_than_its_limit() -> None:
    """The mean is 256 tokens; a request for 10 has 10 at most, one without a limit the mean."""
    router = a_router(a_pool())
    lengths = []
    for limit in ({"max_tokens": 10}, {"max_tokens": 1000}, {"max_tokens": None}):
        body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], **limit}
        request = InferenceRequest.parse("chat", json.dumps(body).encode())
        lengths.append((await router.prepare(request)).output_tokens(256.0))

    assert lengths == [10, 256.0, 256.0]
