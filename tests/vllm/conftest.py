"""Real replicas, started once for all tests here. They need the environment that ``make test-vllm`` makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.real_replicas import RealReplica, real_replicas


@pytest.fixture(scope="session")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealReplica]]:
    environment = os.environ.get("VLLM_ENV")
    if not environment:
        pytest.fail("run `make test-vllm`: it installs vLLM and sets VLLM_ENV")
    with real_replicas(Path(environment), tmp_path_factory.mktemp("vllm")) as started:
        yield started
