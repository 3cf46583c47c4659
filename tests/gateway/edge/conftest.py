"""The edge's tests run on both event loops: a gateway runs on uvloop, and on asyncio's own where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every asynchronous test of this folder once per loop."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
