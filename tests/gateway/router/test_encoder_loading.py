"""Each base model's tokenizer is loaded once, when the model is first seen."""

from __future__ import annotations

import asyncio

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

    assert loading._wanted.empty()
