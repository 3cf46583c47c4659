"""The last resort: a replica tokenizes, with a deadline, and its failures are reasons."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.errors import ReplicaUnreachable
from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.remote_encoder import RemoteEncoder, RemoteTokenize


def remote(tokenize: RemoteTokenize, deadline_s: float = 60) -> RemoteEncoder:
    return RemoteEncoder("m", tokenize, deadline_s=deadline_s, max_prompt_chars=1_000)


def parse(route: str, **body: Any) -> InferenceRequest:
    return InferenceRequest.parse(route, json.dumps(body).encode())


async def asked(route: str, **body: Any) -> dict[str, Any]:
    """The body that /tokenize is asked with."""
    seen: list[dict[str, object]] = []

    async def tokenize(model: str, body: dict[str, object]) -> list[int]:
        seen.append(body)
        return [1, 2, 3]

    encoded = await remote(tokenize).encode(parse(route, **body))
    assert encoded == EncodedPrompt(pack_tokens([1, 2, 3]), 3, "remote_tokenize")
    (question,) = seen
    return question


async def test_asks_with_the_clients_own_chat() -> None:
    """Messages and tools untouched; everything else where /tokenize reads it."""
    messages = [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}]
    tools = [{"function": {"name": "f"}}]

    question = await asked(
        "chat",
        messages=messages,
        tools=tools,
        add_generation_prompt=False,
        reasoning_effort="high",
        documents=[{"a": "b"}],
    )

    assert question == {
        "model": "m",
        "messages": messages,
        "tools": tools,
        "add_generation_prompt": False,
        "continue_final_message": False,
        "add_special_tokens": False,
        "chat_template_kwargs": {"reasoning_effort": "high", "enable_thinking": True, "documents": [{"a": "b"}]},
    }


async def test_asks_for_texts() -> None:
    """With special tokens, as completions have them."""
    assert await asked("completions", prompt="x") == {"model": "m", "prompt": "x", "add_special_tokens": True}


async def test_ids_and_unknowns_are_not_asked_for() -> None:
    """Token ids are known already; images stay unknown; what is too long would cost too much."""

    async def never(model: str, body: dict[str, object]) -> list[int]:
        raise AssertionError

    encoder = remote(never)

    assert await encoder.encode(parse("completions", prompt=[7])) == EncodedPrompt(pack_tokens([7]), 1)
    assert (await encoder.encode(parse("completions", prompt="x" * 2_000))).reason == "too_long"
    assert (await encoder.encode(parse("chat", messages=[]))).reason == "messages"
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}]
    assert await encoder.encode(parse("chat", messages=picture)) == EncodedPrompt.unknown("image")


async def test_does_not_wait_beyond_the_deadline() -> None:
    """The request is routed without its prompt."""

    async def hang(model: str, body: dict[str, object]) -> list[int]:
        await asyncio.Event().wait()
        raise AssertionError

    assert await remote(hang, deadline_s=0.01).encode(parse("completions", prompt="x")) == EncodedPrompt.unknown(
        "remote_timeout"
    )


@pytest.mark.parametrize("error", [OSError(), ValueError(), ReplicaUnreachable("gone")])
async def test_a_failed_call_is_a_reason(error: Exception) -> None:
    """Never the client's problem."""

    async def fail(model: str, body: dict[str, object]) -> list[int]:
        raise error

    assert (await remote(fail).encode(parse("completions", prompt="x"))).reason == "remote_failed"


@pytest.mark.parametrize("answer", [[-1], ["x"], None, [2**40]])
async def test_an_odd_answer_is_a_reason(answer: Any) -> None:
    """What is no list of token ids is not believed."""

    async def odd(model: str, body: dict[str, object]) -> list[int]:
        return answer  # type: ignore[no-any-return]

    assert (await remote(odd).encode(parse("completions", prompt="x"))).reason == "remote_failed"


async def test_what_needs_no_replica_is_known_without_waiting() -> None:
    """Token ids, and what cannot be known. Text has to be asked for."""

    async def tokenize(model: str, body: dict[str, object]) -> list[int]:
        raise AssertionError("nobody is to be asked")

    encoder = remote(tokenize)

    assert encoder.encode_now(parse("completions", prompt=[1, 2])) == EncodedPrompt(pack_tokens([1, 2]), 2)
    assert encoder.encode_now(parse("completions", prompt="x" * 2_000)) == EncodedPrompt.unknown("too_long")
    assert encoder.encode_now(parse("completions", prompt="text")) is None


async def test_what_depends_on_the_template_is_not_asked_for() -> None:
    """vLLM tries it first; whoever has none cannot know what came out."""

    async def tokenize(model: str, body: dict[str, object]) -> list[int]:
        raise AssertionError(body)

    messages = [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]

    assert await remote(tokenize).encode(parse("messages", messages=messages)) == EncodedPrompt.unknown("no_template")


async def test_other_forms_are_asked_for_as_chats() -> None:
    """With special tokens added where their own route adds them."""
    question = await asked("responses", input="x", instructions="be", tools=[{"type": "web_search"}])

    assert question["messages"] == [{"role": "system", "content": "be"}, {"role": "user", "content": "x"}]
    assert (question["tools"], question["add_special_tokens"]) == ([], True)
