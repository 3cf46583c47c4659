"""``prefixway alive``, against the metrics port it asks."""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from gateway.alive_command import run_alive
from gateway.asgi_server import listen_socket
from gateway.cli import main
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from tests.fakes.background import running
from tests.fakes.scripted_server import ScriptedServer, Wire, closed_port, plays_and_closes

ALIVE, READY = Namespace(ready=False), Namespace(ready=True)


def settings(listen: str) -> Settings:
    return Settings.from_env({"PREFIXWAY_METRICS_LISTEN": listen})


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as any_socket:
            any_socket.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "127.0.0.2", "localhost", "[::]", "[::1]", ""])
async def test_asks_wherever_it_listens(host: str) -> None:
    """Every interface, one of them, a name; IPv4 and IPv6."""
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 here")
    bound = settings(f"{host}:0").metrics_listen
    side = SideServer(ProbeApp(CollectorRegistry(), lambda: False), listen_socket(*bound))
    async with running(side.run()):
        here = settings(f"{host}:{side.port}")
        alive = await asyncio.to_thread(run_alive, ALIVE, here)
        ready = await asyncio.to_thread(run_alive, READY, here)
    side.close()

    assert alive == ("ok", 0)
    assert ready == ("not ready", 1)


async def test_ready() -> None:
    """What takes requests is alive, too."""
    side = SideServer(ProbeApp(CollectorRegistry(), lambda: True), listen_socket("127.0.0.1", 0))
    async with running(side.run()):
        ready = await asyncio.to_thread(run_alive, READY, settings(f"127.0.0.1:{side.port}"))
    side.close()

    assert ready == ("ok", 0)


async def test_who_does_not_answer_is_not_alive() -> None:
    """Nobody there, or somebody who hangs up, or speaks something else: status 1, which Docker calls unhealthy."""
    nobody = await asyncio.to_thread(run_alive, ALIVE, settings(f"127.0.0.1:{closed_port()}"))
    async with ScriptedServer(plays_and_closes(), plays_and_closes(b"220 mail\r\n")) as server:
        here = settings(f"127.0.0.1:{server.port}")
        hung_up, other = [await asyncio.to_thread(run_alive, ALIVE, here) for _ in range(2)]

    assert [status for _, status in (nobody, hung_up, other)] == [1, 1, 1]
    assert nobody[0].endswith("/livez: [Errno 111] Connection refused")
    assert "without response" in hung_up[0]
    assert "220 mail" in other[0]


async def test_who_takes_too_long_is_not_alive() -> None:
    """Its loop does not turn."""
    async with ScriptedServer(Wire.until_gone) as server:
        ask = partial(run_alive, ALIVE, settings(f"127.0.0.1:{server.port}"), timeout_s=0.05)
        text, status = await asyncio.to_thread(ask)

    assert (text, status) == (f"127.0.0.1:{server.port}/livez: timed out", 1)


def test_a_port_that_nobody_knows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Port 0 is any: said, with the setting's name."""
    with pytest.raises(SettingsError, match="PREFIXWAY_METRICS_LISTEN has port 0"):
        run_alive(ALIVE, settings("127.0.0.1:0"))

    monkeypatch.setenv("PREFIXWAY_METRICS_LISTEN", "127.0.0.1:0")
    with pytest.raises(SystemExit) as ended:
        main(["alive"])
    assert ended.value.code == 1
    assert "fixed one" in capsys.readouterr().err
