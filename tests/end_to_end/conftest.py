"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

#: What lies on the sockets' finer points runs on the loop that a gateway runs on.
_ON_UVLOOP = ("test_stress.py", "test_keep_alive_race.py", "test_burst.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Which event loop a test runs on."""
    return {"uvloop": uvloop.new_event_loop} if item.path.name in _ON_UVLOOP else {"asyncio": asyncio.new_event_loop}


@pytest.fixture(params=["kv_aware", "prefix_aware", "least_loaded", "session", "round_robin"])
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn: second code paths rot."""
    name: str = request.param
    return name
