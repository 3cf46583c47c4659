"""The gateway's token ids are those of the engine: of its /tokenize, and of the prompt it says it computed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import PromptEncoder
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.remote_encoder import chat_body
from tests.gateway.prompt.chat_corpus import CHATS, ENGINE_CHATS, Body
from tests.vllm.real_replicas import MODEL, RealReplica
from tests.vllm.tiny_model import MODEL_FILES

_SPECIAL = "<|im_end|> special <|endoftext|> [INST] <think>"
MORE_CHATS: dict[str, Body] = {
    "special texts of the model": {"messages": [{"role": "user", "content": _SPECIAL}]},
    "with special tokens": {"messages": [{"role": "user", "content": "a"}], "add_special_tokens": True},
    "salted": {"messages": [{"role": "user", "content": "a"}], "cache_salt": "s"},
    "effort beside tools": {"messages": [{"role": "user", "content": "a"}], "reasoning_effort": "low"},
    "sampled twice": {"messages": [{"role": "user", "content": "a"}], "n": 2, "temperature": 1.0},
    "logprobs": {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 2},
    "truncated nowhere": {"messages": [{"role": "user", "content": "a"}], "truncate_prompt_tokens": -1},
}
TEXTS = [
    "plain text",
    "Grüße 世界 👋🏽",
    "<|im_start|>user\nhi<|im_end|>",
    " leading and trailing \n\n",
    "\t\r\n",
    "a",
    "x" * 500,
    "don't 12345 it's\u2028é e\u0301",
    "def f(x):\n    return x  # <|endoftext|>",
    "\u0000\ufeff\ufffd",
]
COMPLETIONS: list[Body] = [
    *({"prompt": text} for text in TEXTS),
    *({"prompt": text, "add_special_tokens": False} for text in TEXTS[:4]),
    {"prompt": [5, 6, 7, 8]},
    {"prompt": [5]},
    {"prompt": [[5, 6, 7]]},
    {"prompt": [[5, 6], [5, 6, 7, 8], [9]]},
    {"prompt": ["one", "one and two", "x"]},
    {"prompt": ["one"]},
    {"prompt": "echoed", "echo": True},
    {"prompt": "echoed", "echo": True, "logprobs": 1},
    {"prompt": [5, 6, 7], "echo": True},
    {"prompt": "told", "prompt_logprobs": 1},
    {"prompt": "told", "logprobs": 2},
    {"prompt": "salted", "cache_salt": "s"},
    {"prompt": "twice", "n": 2, "temperature": 1.0},
    {"prompt": "truncated nowhere", "truncate_prompt_tokens": -1},
    {"prompt": "with a suffix of its own", "stop": ["x"]},
    {"prompt": "ids as text", "return_tokens_as_token_ids": True, "logprobs": 1},
    {"prompt": "word " * 600},
]


@pytest.fixture
async def encoder() -> AsyncIterator[PromptEncoder]:
    registry = EncoderRegistry(str(MODEL_FILES), hub=None, remote=None, max_prompt_chars=100_000)
    yield await registry.load(MODEL, "")
    registry.close()


@pytest.fixture
async def engine(replicas: list[RealReplica]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=replicas[0].url, trust_env=False, timeout=60) as client:
        yield client


def parsed(kind: str, body: Body) -> InferenceRequest:
    return InferenceRequest.parse(kind, json.dumps({"model": MODEL, **body}).encode())


def ids(prompt: EncodedPrompt) -> list[int]:
    return list(memoryview(prompt.tokens).cast("I"))


async def tokenized(engine: httpx.AsyncClient, body: dict[str, Any]) -> list[int] | None:
    """``None``: the engine refuses it."""
    answer = await engine.post("/tokenize", json={"model": MODEL, **body})
    return answer.json()["tokens"] if answer.is_success else None


async def computed(engine: httpx.AsyncClient, path: str, body: Body) -> list[list[int]] | None:
    """The ids of each prompt that was computed for it."""
    asked = {"model": MODEL, "max_tokens": 1, "return_token_ids": True, "temperature": 0.0, **body}
    answer = await engine.post(path, json=asked)
    if not answer.is_success:
        assert answer.status_code == 400, answer.text
        return None
    whole = answer.json()
    return (
        [whole["prompt_token_ids"]] if "chat" in path else [choice["prompt_token_ids"] for choice in whole["choices"]]
    )


async def test_chats_have_the_engines_ids(engine: httpx.AsyncClient, encoder: PromptEncoder) -> None:
    """Tools, calls, reasoning, parts, kwargs, roles, flags, documents; what the engine refuses has none."""
    compared = 0
    for title, body in {**CHATS, **ENGINE_CHATS, **MORE_CHATS}.items():
        request = parsed("chat", body)
        ours = await encoder.encode(request)
        # Tools stay in the prompt, whatever the choice; without a parser of calls the engine takes no other.
        choice = {"tool_choice": "none"} if body.get("tools") else {}
        prompt = await computed(engine, "/v1/chat/completions", {**body, **choice})
        if request.chat is None or ours.reason:
            assert prompt is None, (title, ours.reason)
            continue
        question = {"add_special_tokens": request.add_special_tokens, **chat_body(request.chat)}

        assert ids(ours) == await tokenized(engine, question), title
        if prompt is not None:
            assert [ids(ours)] == prompt, title
            compared += 1

    assert compared >= 60


async def test_completions_have_the_engines_ids(engine: httpx.AsyncClient, encoder: PromptEncoder) -> None:
    """Text, texts, ids, lists of ids: with every field beside them. Of several the longest is routed on."""
    for body in COMPLETIONS:
        request = parsed("completions", body)
        ours = await encoder.encode(request)
        prompts = await computed(engine, "/v1/completions", body)

        assert prompts is not None, body
        assert ids(ours) in prompts, body
        assert len(ids(ours)) == max(map(len, prompts)), body
        if isinstance(body["prompt"], str):
            question = {"prompt": body["prompt"], "add_special_tokens": request.add_special_tokens}
            assert ids(ours) == await tokenized(engine, question), body

    assert len(COMPLETIONS) >= 30


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("completions", {"prompt": "cut to ten of its own tokens", "truncate_prompt_tokens": 3}, "truncated"),
        (
            "chat",
            {"messages": [{"role": "user", "content": "a"}], "chat_template": "{{ messages[0].content }}"},
            "client_template",
        ),
    ],
)
async def test_what_the_engine_changes_is_not_claimed_to_be_known(
    encoder: PromptEncoder, kind: str, body: Body, reason: str
) -> None:
    """A prompt that is cut, and a template of the client's."""
    assert await encoder.encode(parsed(kind, body)) == EncodedPrompt.unknown(reason)


async def test_the_beginning_before_a_picture_has_the_engines_ids(
    engine: httpx.AsyncClient, encoder: PromptEncoder
) -> None:
    """Whatever comes in its place."""
    history = [{"role": "system", "content": "Describe what you see. " * 20}, {"role": "user", "content": "First"}]
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    asked = [{"type": "text", "text": "Look"}, image]
    ours = await encoder.encode(parsed("chat", {"messages": [*history, {"role": "user", "content": asked}]}))

    assert (ours.reason, ours.complete) == ("image", False)
    assert ours.count > 60
    for text in ("x", "\n<image>", " ", "<|im_end|>", "世界"):
        theirs = await tokenized(engine, {"messages": [*history, {"role": "user", "content": text}]})
        assert theirs is not None
        assert theirs[: ours.count] == ids(ours)
