"""Tokenizer files come from the cache or the hub, and nothing else comes with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.prompt.tokenizer_files import TokenizerNotFound
from gateway.prompt.tokenizer_hub import HubName, TokenizerHub
from tests.gateway.prompt.loopback_hub import running_hub

NAME = HubName("Org/Model", None)
FILES = {
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"a": 1}',
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "chat_template.jinja": b"T",
}


def test_downloads_the_tokenizers_files_only(tmp_path: Path) -> None:
    """No weights; and then they lie in the cache, for which no server is needed."""
    with running_hub(FILES) as server:
        folder = TokenizerHub(server.endpoint, tmp_path).download(NAME)

        assert {path.name for path in folder.iterdir()} == set(FILES) - {"model.safetensors"}
        assert "model.safetensors" not in server.fetched
    assert TokenizerHub("http://127.0.0.1:9", tmp_path).cached(NAME) == folder


def test_what_is_not_cached_is_not_asked_for(tmp_path: Path) -> None:
    """The cache step never touches the network."""
    with running_hub(FILES) as server, pytest.raises(TokenizerNotFound, match="Org/Model"):
        TokenizerHub(server.endpoint, tmp_path).cached(NAME)

    assert server.fetched == []


def test_an_unknown_model_is_not_found(tmp_path: Path) -> None:
    """In one line, whatever the hub's library says in many."""
    with running_hub(FILES) as server, pytest.raises(TokenizerNotFound) as missing:
        TokenizerHub(server.endpoint, tmp_path).download(HubName("Other/Model", None))

    assert "\n" not in str(missing.value)
