"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["kv_aware", "prefix_aware", "least_loaded", "round_robin"])
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn: second code paths rot."""
    name: str = request.param
    return name
