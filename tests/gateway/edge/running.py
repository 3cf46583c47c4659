"""A whole edge on a real socket, in front of scripted servers, with a stand-in for the router."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.asgi_server import listen_socket
from gateway.edge.auth import ApiKeys
from gateway.edge.edge_app import EdgeApp
from gateway.edge.headers import Credentials
from gateway.edge.proxy import MAX_BODY_BYTES, Proxy
from gateway.edge.server import EdgeServer
from gateway.edge.upstream_pool import UpstreamPool
from gateway.fleet.origin import Origin
from gateway.router.exchange import Exchange
from tests.fakes.stand_in_router import StandInRouter
from tests.fakes.waiting import eventually

MODELS = b'{"object":"list","data":[{"id":"m","object":"model"},{"id":"org/n","object":"model"}]}'


@dataclass
class Edge:
    server: EdgeServer
    router: StandInRouter
    upstream: UpstreamPool
    exchanges: list[Exchange]

    @property
    def port(self) -> int:
        return self.server.port


@asynccontextmanager
async def running_edge(
    *origins: Origin,
    api_keys: Sequence[str] = (),
    replica_api_key: str = "",
    show_receipt: bool = True,
    hold_head: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_headers: Sequence[str] = (),
    strategy_header: bool = False,
    pinned_rank: int | None = None,
    connect_timeout_s: float = 5.0,
    idle_timeout_s: float = 4.0,
    silence_timeout_s: float = 600.0,
    models: Callable[[], bytes] = lambda: MODELS,
    ready: Callable[[], bool] = lambda: True,
    router: StandInRouter | None = None,
    listening: socket.socket | None = None,
) -> AsyncIterator[Edge]:
    """Start it, and see that nothing is left busy when the test is done. ``listening``: a socket it shares."""
    router = router or StandInRouter(origins, pinned_rank=pinned_rank)
    upstream = UpstreamPool(
        connect_timeout_s=connect_timeout_s,
        idle_timeout_s=idle_timeout_s,
        silence_timeout_s=silence_timeout_s,
    )
    exchanges: list[Exchange] = []
    keys = ApiKeys(api_keys)
    proxy = Proxy(
        router,
        upstream,
        exchanges.append,
        clock=time.monotonic,
        credentials=Credentials.of(replica_api_key=replica_api_key, api_keys=bool(keys)),
        show_receipt=show_receipt,
        hold_head=hold_head,
        max_body_bytes=max_body_bytes,
        session_headers=session_headers,
        strategy_header=strategy_header,
    )
    app = EdgeApp(proxy, models=models, ready=ready, api_keys=keys)
    own = listening or listen_socket("127.0.0.1", 0)
    server = EdgeServer(app, own, shared=listening is not None, drain_timeout_s=5)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        await eventually(lambda: server.started)
        try:
            yield Edge(server, router, upstream, exchanges)
            await eventually(lambda: router.settled and upstream.busy == 0)
        finally:
            running.cancel()
            upstream.close()
            await eventually(lambda: server.connections == 0)
