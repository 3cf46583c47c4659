"""Encoders as the settings say."""

from __future__ import annotations

from time import monotonic

import pytest

from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.fleet.replica_pool import ReplicaPool
from gateway.prompt.encoder import LocalEncoder
from gateway.prompt.remote_encoder import RemoteEncoder
from gateway.prompt_parts import encoders_of
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica.model_folder import DEFAULT_FOLDER


async def test_the_tokenizer_of_the_setting_is_used_and_replicas_where_there_is_none() -> None:
    remote = RemoteTokenizer(ReplicaPool(), clock=monotonic)
    encoders = encoders_of(Settings.from_env({"PREFIXWAY_TOKENIZER": f"m={DEFAULT_FOLDER},n=/nowhere"}), remote)

    assert isinstance(await encoders.load("m", ""), LocalEncoder)
    assert isinstance(await encoders.load("n", ""), RemoteEncoder)
    with pytest.raises(SettingsError, match="PREFIXWAY_TOKENIZER"):
        encoders_of(Settings.from_env({"PREFIXWAY_TOKENIZER": "=x"}), remote)
    encoders.close()
    await remote.close()
