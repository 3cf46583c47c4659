"""Asking an admin port."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from gateway.admin_client import AdminClient, AdminRefusedError, AdminUnreachableError, default_url
from gateway.asgi_server import listen_socket
from gateway.errors import ServerNotFound
from gateway.observe.admin_app import admin_app
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from gateway.settings import Settings
from tests.fakes.background import running
from tests.fakes.scripted_server import closed_port


def _status() -> dict[str, object]:
    raise ServerNotFound("No such thing.")


async def test_answers_and_refusals() -> None:
    """JSON as it is; an error's own message; a list is no answer to a command."""
    side = SideServer(admin_app(_status, list, "t0"), listen_socket("127.0.0.1", 0))
    async with running(side.run()):

        def asked() -> list[str]:
            messages = []
            for token, path in (("t0", "/status"), ("wrong", "/status"), ("t0", "/nowhere"), ("t0", "/replicas")):
                with AdminClient(f"127.0.0.1:{side.port}/", token) as client:
                    try:
                        client.ask("GET", path)
                    except AdminRefusedError as error:
                        messages.append(str(error))
            return messages

        messages = await asyncio.to_thread(asked)
    side.close()

    assert messages == [
        "No such thing.",
        "The admin token is missing or wrong.",
        "There is no /nowhere here.",
        f"http://127.0.0.1:{side.port}/replicas answered 200",
    ]


async def test_somebody_else_there() -> None:
    """What answers without JSON is no admin port."""
    side = SideServer(ProbeApp(CollectorRegistry(), lambda: True), listen_socket("127.0.0.1", 0))
    no_admin_port = pytest.raises(AdminUnreachableError, match="is no admin port of a gateway")
    async with running(side.run()):
        with AdminClient(f"127.0.0.1:{side.port}", "") as client, no_admin_port:
            await asyncio.to_thread(client.ask, "GET", "/metrics")
    side.close()


def test_nobody_there() -> None:
    """The message says where."""
    port = closed_port()
    with AdminClient(f"http://127.0.0.1:{port}", "") as client, pytest.raises(AdminUnreachableError, match=str(port)):
        client.ask("GET", "/status")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port"])
def test_what_is_no_url(url: str) -> None:
    """Is refused before anything is sent."""
    with pytest.raises(AdminRefusedError, match="--admin"):
        AdminClient(url, "")


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:9465", "http://127.0.0.1:9465"),
        ("0.0.0.0:9", "http://127.0.0.1:9"),
        (":9", "http://127.0.0.1:9"),
        ("[::]:9", "http://[::1]:9"),
        ("[::1]:9", "http://[::1]:9"),
        ("10.0.0.1:9", "http://10.0.0.1:9"),
    ],
)
def test_where_a_gateway_on_this_machine_is(listen: str, url: str) -> None:
    """What listens on every interface is asked on loopback."""
    settings = Settings.from_env({"PREFIXWAY_ADMIN_LISTEN": listen, "PREFIXWAY_ADMIN_TOKEN": "t0"})

    assert default_url(settings) == url
