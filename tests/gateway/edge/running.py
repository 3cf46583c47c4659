"""A whole edge on a real socket, in front of scripted servers, with a stand-in for the router."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.asgi_server import listen_socket
from gateway.client_keys import ClientKey
from gateway.edge.admission import Admission
from gateway.edge.auth import ApiKeys
from gateway.edge.cors import Cors
from gateway.edge.edge_app import MAX_BODY_BYTES, EdgeApp
from gateway.edge.headers import Credentials
from gateway.edge.proxy import Proxy, ProxyRules
from gateway.edge.retries import RetryBudget
from gateway.edge.routes import Routes
from gateway.edge.server import EdgeServer
from gateway.edge.upstream_pool import UpstreamPool
from gateway.errors import GatewayError
from gateway.fleet.origin import Origin
from gateway.router.exchange import Exchange
from tests.fakes.stand_in_router import StandInPrepared, StandInRouter
from tests.fakes.waiting import eventually

MODELS = b'{"object":"list","data":[{"id":"m","object":"model"},{"id":"org/n","object":"model"}]}'


@dataclass
class Edge:
    server: EdgeServer
    proxy: Proxy[StandInPrepared]
    router: StandInRouter
    upstream: UpstreamPool
    admission: Admission
    exchanges: list[Exchange]
    unreadable: list[GatewayError]

    @property
    def port(self) -> int:
        return self.server.port


def admission_with(
    *,
    max_inflight: int | None = None,
    max_inflight_tokens: int | None = None,
    max_queue: int = 1000,
    queue_timeout_s: float = 30.0,
) -> Admission:
    """By the real clock."""
    return Admission(
        max_inflight=max_inflight,
        max_inflight_tokens=max_inflight_tokens,
        max_queue=max_queue,
        max_queue_tokens=None,
        queue_timeout_s=queue_timeout_s,
        clock=time.monotonic,
        call_later=asyncio.get_running_loop().call_later,
    )


@asynccontextmanager
async def running_edge(
    *origins: Origin,
    api_keys: Sequence[str] = (),
    replica_api_key: str = "",
    show_receipt: bool = True,
    hold_head: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_headers: Sequence[str] = (),
    client_strategy: bool = False,
    client_priority: bool = False,
    ask_usage: bool = False,
    aliases: Mapping[str, str] | None = None,
    allow_routes: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
    pinned_rank: int | None = None,
    retry_budget: float = 1.0,
    admission: Admission | None = None,
    connect_timeout_s: float = 5.0,
    idle_timeout_s: float = 4.0,
    first_byte_timeout_s: float | None = None,
    silence_timeout_s: float = 600.0,
    upload_timeout_s: float = 30.0,
    send_timeout_s: float = 30.0,
    models: Callable[[], bytes] = lambda: MODELS,
    ready: Callable[[], bool] = lambda: True,
    router: StandInRouter | None = None,
    listening: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Edge]:
    """Start it, and see that nothing is left busy when the test is done. ``listening``: a socket it shares."""
    router = router or StandInRouter(origins, pinned_rank=pinned_rank)
    upstream = UpstreamPool(
        connect_timeout_s=connect_timeout_s,
        idle_timeout_s=idle_timeout_s,
        first_byte_timeout_s=first_byte_timeout_s,
        silence_timeout_s=silence_timeout_s,
    )
    exchanges: list[Exchange] = []
    unreadable: list[GatewayError] = []
    admission = admission or admission_with()
    digests = [hashlib.sha256(key.encode()).digest() for key in api_keys]
    keys = ApiKeys([ClientKey(f"key-{digest.hex()[:8]}", digest) for digest in digests], receipt=show_receipt)
    proxy = Proxy(
        router,
        upstream,
        exchanges.append,
        admission=admission,
        budget=RetryBudget(retry_budget),
        rules=ProxyRules(
            credentials=Credentials.of(replica_api_key=replica_api_key, api_keys=bool(keys)),
            show_receipt=show_receipt,
            hold_head=hold_head,
            session_headers=session_headers,
            client_strategy=client_strategy,
            client_priority=client_priority,
            ask_usage=ask_usage,
            aliases=aliases or {},
        ),
        clock=time.monotonic,
    )
    app = EdgeApp(
        proxy,
        routes=Routes(allow_routes),
        models=models,
        ready=ready,
        api_keys=keys,
        cors=Cors(cors_origins),
        max_body_bytes=max_body_bytes,
        unreadable=unreadable.append,
    )
    server = EdgeServer(
        app,
        listening or listen_socket("127.0.0.1", 0),
        shared=listening is not None,
        tls=tls,
        upload_timeout_s=upload_timeout_s,
        send_timeout_s=send_timeout_s,
        drain_timeout_s=5,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        await eventually(lambda: server.started)
        try:
            yield Edge(server, proxy, router, upstream, admission, exchanges, unreadable)
            await eventually(lambda: router.settled and upstream.busy == 0 and proxy.under_way == 0)
            assert (admission.inflight, admission.waiting) == (0, 0)
        finally:
            running.cancel()
            upstream.close()
            await eventually(lambda: server.connections == 0)
