"""Which event loop tests of discovery run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

#: What opens sockets by a library that knows asyncio's loop best runs on the loop that a gateway runs on.
_ON_UVLOOP = ("test_dns.py",)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop} if item.path.name in _ON_UVLOOP else {"asyncio": asyncio.new_event_loop}
