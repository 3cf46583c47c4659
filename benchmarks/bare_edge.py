"""The edge alone, with a router that does not think: the cost of carrying bytes.

python -m benchmarks.bare_edge PORT REPLICA_PORT
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import NamedTuple

import uvloop

from gateway.asgi_server import listen_socket
from gateway.edge.admission import Admission
from gateway.edge.auth import ApiKeys
from gateway.edge.cors import Cors
from gateway.edge.edge_app import EdgeApp
from gateway.edge.outbox import Outbox
from gateway.edge.proxy import Proxy, ProxyRules
from gateway.edge.retries import RetryBudget
from gateway.edge.routes import Routes
from gateway.edge.server import EdgeServer
from gateway.edge.upstream_pool import UpstreamPool
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.kv.tiers import TierTokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Decision, Stages
from gateway.router.exchange import Exchange
from gateway.usage import Usage

_DECISION = Decision(
    replica_id="a",
    namespace="m",
    strategy="round_robin",
    reason="rotation",
    prompt_reason="",
    index_reason="",
    prompt_tokens=0,
    confirmed=TierTokens(),
    expected_tokens=0,
    uncached_tokens=0,
    prefill_s=0.0,
    avoided_s=0.0,
    incomparable="",
    candidates=1,
    stages=Stages(0.0, 0.0, 0.0),
)


class Nothing(NamedTuple):
    """What is known of a request."""

    work_tokens: int = 0
    alias: str = ""


_NOTHING = Nothing()


class OneAttempt:
    """An attempt that keeps no books."""

    pinned_rank = None
    server_id = "a"
    decision = _DECISION

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    def first_byte(self) -> None: ...

    def responded(self, response_id: str) -> None: ...

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None: ...


class OneReplica:
    """A router with one place to send to."""

    def __init__(self, origin: Origin) -> None:
        self._attempt = OneAttempt(origin)

    def prepare_now(self, request: InferenceRequest, *, strategy: str | None = None) -> Nothing:
        return _NOTHING

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> Nothing:
        return _NOTHING

    def attempt(self, prepared: Nothing, tried: frozenset[str]) -> OneAttempt:
        return self._attempt


def _observe(exchange: Exchange) -> None: ...


async def main(port: int, replica_port: int) -> None:
    admission = Admission(
        max_inflight=10_000,
        max_inflight_tokens=None,
        max_queue=0,
        max_queue_tokens=None,
        queue_timeout_s=30.0,
        clock=time.monotonic,
        call_later=asyncio.get_running_loop().call_later,
    )
    outbox = Outbox()
    proxy = Proxy(
        OneReplica(Origin(False, "127.0.0.1", replica_port)),
        UpstreamPool(outbox=outbox),
        _observe,
        admission=admission,
        budget=RetryBudget(),
        rules=ProxyRules(),
        clock=time.monotonic,
    )
    app = EdgeApp(
        proxy,
        routes=Routes(),
        models=lambda: b"{}",
        ready=lambda: True,
        api_keys=ApiKeys(),
        cors=Cors([]),
    )
    await EdgeServer(app, listen_socket("127.0.0.1", port), outbox=outbox).run()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
