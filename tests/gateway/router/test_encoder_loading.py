"""Each base model's tokenizer is loaded once, when the model is first seen."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from gateway.prompt.encoders import EncoderRegistry
from gateway.router.encoder_loading import EncoderLoading
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.fakes.waiting import eventually
from tests.gateway.examples import MODEL, a_pool


async def test_joining_replicas_bring_their_model() -> None:
    """Two replicas of one model: one load; what encodes it is told."""
    registry = EncoderRegistry(str(DEFAULT_FOLDER), hub=None, remote=None, max_prompt_chars=1000)
    loading = EncoderLoading(registry)
    task = asyncio.ensure_future(loading.run())
    for replica in a_pool().replicas:
        loading.joined(replica, None)
    await eventually(lambda: registry.get(MODEL))
    await eventually(lambda: loading.sources() == {MODEL: "LocalEncoder"})
    task.cancel()
    registry.close()


async def test_a_missing_tokenizer_is_looked_for_again(tmp_path: Path) -> None:
    """While there is none the model has its fallback; once the files are there it has a tokenizer."""
    registry = EncoderRegistry(str(tmp_path), hub=None, remote=None, max_prompt_chars=1000)
    loading = EncoderLoading(registry, retry_s=0.01)
    task = asyncio.ensure_future(loading.run())
    for replica in a_pool().replicas:
        loading.joined(replica, None)
    await eventually(lambda: loading.sources() == {MODEL: "AbsentEncoder"})
    for name in ("tokenizer_config.json", "tokenizer.json"):
        shutil.copy(DEFAULT_FOLDER / name, tmp_path)
    await eventually(lambda: loading.sources() == {MODEL: "LocalEncoder"})
    task.cancel()
    registry.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b"\xff\xfe not json"),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"0": {}}}'),
        ("chat_template.jinja", b"\xff\xfe"),
    ],
)
async def test_a_broken_file_leaves_the_fallback(tmp_path: Path, name: str, content: bytes) -> None:
    """Whatever is wrong with the files, the model has an encoder, and the loading goes on."""
    for file in ("tokenizer_config.json", "tokenizer.json"):
        shutil.copy(DEFAULT_FOLDER / file, tmp_path)
    (tmp_path / name).write_bytes(content)
    registry = EncoderRegistry(str(tmp_path), hub=None, remote=None, max_prompt_chars=1000)
    loading = EncoderLoading(registry, retry_s=0.01)
    task = asyncio.ensure_future(loading.run())
    for replica in a_pool().replicas:
        loading.joined(replica, None)
    await eventually(lambda: registry.get(MODEL))
    (tmp_path / name).unlink()
    for file in ("tokenizer_config.json", "tokenizer.json"):
        shutil.copy(DEFAULT_FOLDER / file, tmp_path)
    await eventually(lambda: loading.sources() == {MODEL: "LocalEncoder"})
    assert not task.done()
    task.cancel()
    registry.close()
