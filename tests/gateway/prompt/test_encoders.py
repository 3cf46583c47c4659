"""Encoders come to life with their models, once, and say where from."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from tests.gateway.prompt.model_folders import train_model

CHAT = InferenceRequest.parse("chat", json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode())


async def tokenize(model: str, body: dict[str, object]) -> list[int]:
    return [1, 2, 3]


@pytest.fixture
def registry() -> Iterator[EncoderRegistry]:
    registry = EncoderRegistry("auto", hub=None, remote=None, max_prompt_chars=1_000)
    yield registry
    registry.close()


@pytest.fixture
def asking_registry() -> Iterator[EncoderRegistry]:
    registry = EncoderRegistry("auto", hub=None, remote=tokenize, max_prompt_chars=1_000)
    yield registry
    registry.close()


async def test_a_model_is_loaded_once(
    registry: EncoderRegistry, small_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However many ask for it; the log says once which step found it."""
    caplog.set_level(logging.INFO)
    assert registry.get("m") is None

    first, *others = await asyncio.gather(*(registry.load("m", str(small_folder)) for _ in range(5)))

    assert all(other is first for other in others)
    assert registry.get("m") is first
    assert (await first.encode(CHAT)).count > 0
    assert len([record for record in caplog.records if "root" in record.getMessage()]) == 1


async def test_without_a_tokenizer_prompts_stay_unknown(
    registry: EncoderRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says where it was looked for and what to do."""
    encoder = await registry.load("alias", "/no/such/path")

    assert (await encoder.encode(CHAT)).reason == "no_tokenizer"
    assert registry.get("alias") is encoder
    assert "PREFIXWAY_TOKENIZER" in caplog.text
    assert "/no/such/path" in caplog.text


async def test_without_a_tokenizer_a_replica_is_asked(
    asking_registry: EncoderRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """Loudly."""
    encoder = await asking_registry.load("m", "/no/such/path")

    assert (await encoder.encode(CHAT)).reason == "remote_tokenize"
    assert "a replica tokenizes every prompt" in caplog.text


async def test_without_a_template_a_replica_renders_the_chat(asking_registry: EncoderRegistry, tmp_path: Path) -> None:
    """Completions are still encoded here."""
    encoder = await asking_registry.load("m", str(train_model(tmp_path, chat_template=None)))

    assert (await encoder.encode(CHAT)).reason == "remote_tokenize"
    assert (await encoder.encode(InferenceRequest.parse("completions", b'{"prompt": "x"}'))).reason == ""


async def test_a_broken_template_is_as_none(
    registry: EncoderRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reported when loaded, and never in the way of completions."""
    encoder = await registry.load("m", str(train_model(tmp_path, chat_template="{% if %}")))

    assert (await encoder.encode(CHAT)).reason == "no_template"
    assert "does not compile" in caplog.text


async def test_models_of_one_folder_share_a_tokenizer(registry: EncoderRegistry, small_folder: Path) -> None:
    """It is hundreds of megabytes."""
    one, two = await registry.load("one", str(small_folder)), await registry.load("two", f"{small_folder}/.")

    assert await one.encode(CHAT) == await two.encode(CHAT)
    assert len(registry._tokenizers) == 1


def test_a_bad_setting_is_refused_at_once() -> None:
    """When the gateway starts."""
    with pytest.raises(ValueError, match="tokenizer setting"):
        EncoderRegistry("m=", hub=None, remote=None, max_prompt_chars=1)
