"""The edge alone, with a router that does not think: the cost of carrying bytes.

python -m benchmarks.bare_edge PORT REPLICA_PORT
"""

from __future__ import annotations

import sys
import time

import uvloop

from gateway.asgi_server import listen_socket
from gateway.edge.auth import ApiKeys
from gateway.edge.edge_app import EdgeApp
from gateway.edge.headers import Credentials
from gateway.edge.proxy import Proxy
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


class OneAttempt:
    """An attempt that keeps no books."""

    pinned_rank = None
    server_id = "a"
    decision = _DECISION

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    def first_byte(self) -> None: ...

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None: ...


class OneReplica:
    """A router with one place to send to."""

    def __init__(self, origin: Origin) -> None:
        self._attempt = OneAttempt(origin)

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> InferenceRequest:
        return request

    def attempt(self, prepared: InferenceRequest, tried: frozenset[str]) -> OneAttempt:
        return self._attempt


def _observe(exchange: Exchange) -> None: ...


async def main(port: int, replica_port: int) -> None:
    router = OneReplica(Origin(False, "127.0.0.1", replica_port))
    proxy = Proxy(router, UpstreamPool(), _observe, clock=time.monotonic, credentials=Credentials())
    app = EdgeApp(proxy, models=lambda: b"{}", ready=lambda: True, api_keys=ApiKeys([]))
    await EdgeServer(app, listen_socket("127.0.0.1", port)).run()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
