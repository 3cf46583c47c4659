"""Whether a process is one of several follows from its settings alone."""

from __future__ import annotations

import subprocess
import sys
from time import monotonic

import pytest

from gateway.alone import Alone
from gateway.kv.routed import Routed
from gateway.settings import Settings
from gateway.shared.link.keys import Keys
from gateway.together import Together
from gateway.together_or_alone import Fellowship, fellowship
from tests.gateway.examples import a_pool

URL = {"PREFIXWAY_REDIS_URL": "redis://127.0.0.1:1"}


def made(settings: dict[str, str], schema: int = 1) -> Fellowship:
    given = Settings.from_env(settings)
    return fellowship(given, a_pool(), Routed(), clock=monotonic, wall_clock=lambda: 0.0, schema=schema)


async def test_without_a_redis_it_is_alone() -> None:
    """With one it is together, also where only load and orders are shared."""
    assert isinstance(made({}), Alone)
    assert isinstance(made(URL), Together)
    index_in_memory = made({**URL, "PREFIXWAY_INDEX": "memory"})
    assert isinstance(index_in_memory, Together)
    assert index_in_memory.index is index_in_memory.memory


async def test_the_schema_is_that_of_its_keys() -> None:
    """So that two versions can live side by side in one test."""
    process = made(URL, 2)
    assert isinstance(process, Together)

    assert process.keys.registry("m") == Keys(schema=2).registry("m") != Keys().registry("m")


WITHOUT_CLIENT = """
import asyncio, sys
sys.modules["redis"] = None  # as if it were not installed
from gateway.app import Gateway
from gateway.setting_field import SettingsError
from gateway.settings import Settings
ports = {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")}
async def make():
    Gateway(Settings.from_env({**ports, "PREFIXWAY_REDIS_URL": sys.argv[1]}))
try:
    asyncio.run(make())
    print("made")
except SettingsError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("url", "told"),
    [("", "made"), ("redis://127.0.0.1:1", "PREFIXWAY_REDIS_URL needs redis: pip install 'prefixway[redis]'")],
)
def test_redis_needs_its_client_only_where_there_is_one(url: str, told: str) -> None:
    """A start without the extra: fine alone, else an error that says what is to be installed."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT_CLIENT, url], capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == (f"{told}\n", "")
