"""Usage that only we ask for, of real vLLM: what a client gets is byte for byte what it gets from vLLM itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.running_gateway import RunningGateway, running_gateway
from tests.vllm.real_replicas import RealReplica

_VARIES = re.compile(r'"(?:id|created)":(?:"[^"]*"|\d+)')
_TRIES = 40
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "count to ten"}], "stream": True, "temperature": 0}
COMPLETION = {"model": "tiny", "prompt": "once", "stream": True, "temperature": 0}
BODIES = {
    "chat": ("/v1/chat/completions", CHAT | {"max_tokens": 5}),
    "one token": ("/v1/chat/completions", CHAT | {"max_tokens": 1}),
    "stop": ("/v1/chat/completions", CHAT | {"max_tokens": 6, "stop": ["n", "I"]}),
    "logprobs": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "logprobs": True, "top_logprobs": 3}),
    "token ids": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "return_token_ids": True}),
    "tools": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "tools": [TOOL], "tool_choice": "none"}),
    "empty options": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "stream_options": {}}),
    "no usage": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "stream_options": {"include_usage": False}}),
    "completion": (
        "/v1/completions",
        {"model": "tiny", "prompt": "once", "stream": True, "temperature": 0, "max_tokens": 5},
    ),
    "echo": (
        "/v1/completions",
        {"model": "tiny", "prompt": "once", "echo": True, "stream": True, "temperature": 0, "max_tokens": 2},
    ),
    "two choices": ("/v1/chat/completions", CHAT | {"max_tokens": 4, "n": 2, "temperature": 1, "seed": 1}),
    "too long": ("/v1/completions", {"model": "tiny", "prompt": [5] * 5000, "stream": True}),
}


@pytest.fixture(scope="module")
def gateway(replicas: list[RealReplica]) -> Iterator[RunningGateway]:
    with running_gateway([replicas[0].url], strategy="kv_aware", ask_usage="true") as started:
        started.wait(lambda: "tiny" in started.status()["models"])
        started.wait(lambda: all(each["healthy"] for each in started.replicas().values()))
        yield started


def answered(url: str, path: str, body: dict[str, object]) -> str:
    """An answer without what is another one each time."""
    text = httpx.post(url + path, json=body, trust_env=False, timeout=60).text
    return _VARIES.sub("", text)


def events(answer: str) -> list[str]:
    """In order, but for those of different choices, which come as they come."""
    return sorted(answer.split("\n\n"))


@pytest.mark.parametrize("name", BODIES)
def test_the_client_sees_what_vllm_sends_it(gateway: RunningGateway, replicas: list[RealReplica], name: str) -> None:
    """Fingerprint, finish and all. Where vLLM is slow to send, tokens share an event: so it is asked until both times
    it was equally slow.
    """
    path, body = BODIES[name]
    for _ in range(_TRIES):
        through, direct = (answered(url, path, body) for url in (gateway.url, replicas[0].url))
        if events(through) == events(direct):
            break

    assert events(through) == events(direct)
    assert "n" in body or through == direct
    assert "usage" not in through


def test_and_we_know_what_was_cached(gateway: RunningGateway) -> None:
    """Streams that tell nobody are compared like all others."""

    def verified() -> int:
        (replica,) = gateway.replicas().values()
        found: int = replica["truth"].get("requests", {}).get("usage", 0)
        return found

    before, prompt = verified(), f"{uuid4()} " + "again and again " * 40
    for _ in range(3):
        answered(gateway.url, "/v1/completions", {"model": "tiny", "prompt": prompt, "stream": True})

    gateway.wait(lambda: verified() >= before + 2)
    (replica,) = gateway.replicas().values()
    assert replica["truth"]["accuracy"]["error"] == 0
