"""Real replicas, started once for all tests here or for those of a module. They need the environment that
``make test-vllm`` makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.lmcache_server import lmcache_environ, lmcache_servers
from tests.vllm.real_replicas import RealReplica, real_replicas
from tests.vllm.tiny_model import make_adapter

SMALL_BLOCKS = 96  # three prompts fill it
_SMALL_PROMPTS = 2048
_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
_L1_GB = 0.008  # 250 chunks: five times what the small cache holds


@pytest.fixture(scope="session")
def vllm_environment() -> Path:
    """Where vLLM and LMCache are installed."""
    environment = os.environ.get("VLLM_ENV")
    if not environment:
        pytest.fail("run `make test-vllm`: it installs vLLM and sets VLLM_ENV")
    return Path(environment)


@pytest.fixture(scope="session")
def replicas(vllm_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealReplica]]:
    """Two, with caches large enough for all tests."""
    with real_replicas(vllm_environment, tmp_path_factory.mktemp("vllm")) as started:
        yield started


@pytest.fixture(scope="module")
def small_replicas(vllm_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealReplica]]:
    """Two whose caches are full after three prompts; they know tools, and an adapter named pirate."""
    folder = tmp_path_factory.mktemp("small")
    adapter = make_adapter(folder / "pirate")
    arguments = ["--enable-lora", "--max-lora-rank=8", "--lora-modules", f"pirate={adapter}", *_TOOLS]
    with real_replicas(
        vllm_environment,
        folder,
        blocks=SMALL_BLOCKS,
        max_model_len=_SMALL_PROMPTS,
        arguments=[arguments, arguments],
    ) as started:
        yield started


@pytest.fixture(scope="module")
def lmcache_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The L2 of ``lmcache_replicas``: a folder, with a file for each chunk."""
    return tmp_path_factory.mktemp("l2")


@pytest.fixture(scope="module")
def lmcache_replicas(
    vllm_environment: Path, lmcache_storage: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[RealReplica]]:
    """Two with small caches, each with an LMCache server behind it: a small L1 of its own, and a shared L2."""
    folder = tmp_path_factory.mktemp("lmcache")
    with (
        lmcache_servers(vllm_environment, folder, lmcache_storage, _L1_GB) as servers,
        real_replicas(
            vllm_environment,
            folder,
            blocks=SMALL_BLOCKS,
            max_model_len=_SMALL_PROMPTS,
            arguments=[[*server.replica_arguments(), *_TOOLS] for server in servers],
            environ=lmcache_environ(vllm_environment),
        ) as started,
    ):
        yield started
