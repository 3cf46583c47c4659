"""``prefixway strategy``, ``drain`` and ``undrain`` against a real admin port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.asgi_server import listen_socket
from gateway.cli import main
from gateway.fleet.replica_pool import ReplicaPool
from gateway.observe.admin_app import admin_app
from gateway.observe.order_desk import OrderDesk
from gateway.observe.side_server import SideServer
from gateway.router.order_effects import OrderEffects
from gateway.router.router import Router
from gateway.shared.orders.local_orders import LocalOrders
from tests.fakes.background import running
from tests.fakes.scripted_server import closed_port
from tests.gateway.examples import Clock, a_pool, a_router


class House:
    """A gateway as far as orders go, and its admin port, which wants a token."""

    def __init__(self) -> None:
        self.pool: ReplicaPool = a_pool()
        self.router: Router = a_router(self.pool)
        self.orders = LocalOrders(wall_clock=Clock())
        self.orders.listen(OrderEffects(self.orders.book, self.pool, self.router).apply)
        desk = OrderDesk(
            self.orders,
            servers=lambda: [server.id for server in self.pool.servers],
            strategy=lambda: self.router.strategy,
            configured="kv_aware",
            wall_clock=Clock(),
        )
        self.side = SideServer(admin_app(dict, list, "t0", desk), listen_socket("127.0.0.1", 0))

    @property
    def drained(self) -> list[str]:
        return [server.id for server in self.pool.servers if server.draining]


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """The environment points at its admin port."""
    house = House()
    monkeypatch.setenv("PREFIXWAY_ADMIN_LISTEN", f"127.0.0.1:{house.side.port}")
    monkeypatch.setenv("PREFIXWAY_ADMIN_TOKEN", "t0")
    async with running(house.side.run()):
        yield house
    house.side.close()


async def _run(*argv: str) -> int:
    """The exit status."""

    def run() -> int:
        with pytest.raises(SystemExit) as ended:
            main(argv)
        return ended.value.code if isinstance(ended.value.code, int) else -1

    return await asyncio.to_thread(run)


async def test_a_strategy_is_set_shown_and_cleared(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """Each says what holds now, for whom, and in which version."""
    statuses = [
        await _run("strategy", "show"),
        await _run("strategy", "set", "roundrobin", "--author", "ann@desk"),
        await _run("strategy", "show"),
    ]
    strategy = house.router.strategy
    statuses.append(await _run("strategy", "clear"))
    out, err = capsys.readouterr()

    here = "in this process only: there is no Redis"
    assert (statuses, err, strategy, house.router.strategy) == ([0] * 4, "", "round_robin", "kv_aware")
    assert out.splitlines() == [
        "strategy kv_aware, as configured",
        f"strategy round_robin: {here} (version 1)",
        "strategy round_robin (configured: kv_aware)",
        f"ordered: round_robin, by ann@desk at 1970-01-01T00:01:40+00:00, version 1, {here}",
        f"strategy kv_aware, as configured: {here} (version 2)",
    ]


async def test_servers_are_drained_and_undrained(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """The author is whoever runs the command, unless it says otherwise."""
    status = await _run("drain", "b")
    drained = house.drained
    author = house.orders.book.in_force()[0].author
    again = await _run("undrain", "b")

    assert (status, again, drained, house.drained) == (0, 0, ["b"], [])
    assert "@" in author
    assert capsys.readouterr().out.splitlines() == [
        "server b takes no new requests: in this process only: there is no Redis (version 1)",
        "server b takes requests again: in this process only: there is no Redis (version 2)",
    ]


async def test_refusals_are_status_1(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    """With the gateway's own words, on standard error."""
    statuses = [await _run("drain", "c"), await _run("strategy", "set", "fastest")]
    out, err = capsys.readouterr()

    assert (statuses, out, house.drained) == ([1, 1], "", [])
    assert err.splitlines()[0] == "prefixway: No server has the id 'c'; there are a, b."
    assert err.splitlines()[1].startswith("prefixway: no strategy is named 'fastest'; there are ")


async def test_a_wrong_token_is_a_refusal(
    house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read from the environment only."""
    monkeypatch.setenv("PREFIXWAY_ADMIN_TOKEN", "wrong")

    assert await _run("drain", "a") == 1
    assert capsys.readouterr().err == "prefixway: The admin token is missing or wrong.\n"


async def test_wrong_configuration_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """As for serve."""
    assert await _run("drain", "a", "--admin", "ftp://host") == 1
    assert "--admin ftp://host" in capsys.readouterr().err


async def test_nobody_there_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where was asked."""
    port = closed_port()

    assert await _run("strategy", "show", "--admin", f"127.0.0.1:{port}") == 2
    assert capsys.readouterr().err.startswith(f"prefixway: http://127.0.0.1:{port}: ")
