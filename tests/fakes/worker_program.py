"""A worker's process without a gateway: it starts in a moment, and does what a client on its public socket says.

Started by a supervisor as ``python -m tests.fakes.worker_program --worker ...``. A client sends a line and gets one:
its pid. ``stall``: the event loop hangs. ``count``: one more in its counter. ``hold``: the connection stays open.

``WORKER_IS_READY`` in its environment names a file: it is ready while that exists. ``WORKER_EXITS`` is a status to
exit with at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.asgi_server import ListenSockets
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from gateway.workers.channel import Channel, Order
from gateway.workers.inheritance import Inheritance
from gateway.workers.worker import Worker, clear_away

COMMAND = (sys.executable, "-m", "tests.fakes.worker_program")


class LineServer:
    """What stands for a gateway: it answers lines."""

    def __init__(self, sockets: ListenSockets, ready_file: str) -> None:
        registry = CollectorRegistry()
        self._counted = Counter("prefixway_requests", "Lines", registry=registry)
        Gauge("prefixway_replica_up", "As a gateway has it", ("replica",), registry=registry).labels("one").set(1)
        self._public = sockets.public
        self._side = [
            SideServer(ProbeApp(registry, self.is_ready), sockets.metrics),
            SideServer(AdminPages(self), sockets.admin),
        ]
        self._ready_file = ready_file
        self._open: set[asyncio.StreamWriter] = set()
        self._gate = asyncio.Event()
        self._leave = asyncio.Event()
        self._is_stopping = False

    @property
    def connections(self) -> int:
        return len(self._open)

    @property
    def accepts(self) -> bool:
        return self._gate.is_set() and not self._leave.is_set()

    def is_ready(self) -> bool:
        return not self._is_stopping and (not self._ready_file or Path(self._ready_file).exists())

    def accept(self) -> None:
        self._gate.set()

    def retire(self) -> None:
        self._leave.set()

    def stop(self, *, linger: bool = True) -> None:
        self._is_stopping = True
        self._leave.set()

    async def run(self, before_end: Callable[[], Awaitable[None]]) -> None:
        """Until told to leave; then until the clients have left."""
        side = [asyncio.ensure_future(server.run()) for server in self._side]
        await asyncio.wait(
            [asyncio.ensure_future(event.wait()) for event in (self._gate, self._leave)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not self._leave.is_set():
            server = await asyncio.start_server(self._serve, sock=self._public)
            await self._leave.wait()
            server.close()
            await asyncio.sleep(0.05)  # those that were accepted in this moment become connections
        while self._open:  # noqa: ASYNC110 - a test's clients
            await asyncio.sleep(0.01)
        await before_end()
        for task in side:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while line := (await reader.readline()).strip():
                if line == b"stall":
                    time.sleep(60)  # noqa: ASYNC251 - a hanging loop is what is wanted
                elif line == b"count":
                    self._counted.inc()
                writer.write(b"%d\n" % os.getpid())
        except ConnectionError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


class AdminPages:
    """/status and /replicas as a gateway has them; anything else: an echo, refused on /refuse."""

    def __init__(self, server: LineServer) -> None:
        self._server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = {"path": scope["path"], "method": scope["method"], "headers": headers, "pid": os.getpid()}
        request["query"] = scope["query_string"].decode()
        replica = {"id": "one", "healthy": True, "inflight": self._server.connections, "events": {"state": "off"}}
        pages = {"/replicas": [replica], "/status": {"strategy": "kv_aware", "replicas": [replica]}}
        request["body"] = (await receive()).get("body", b"").decode()
        body = json.dumps(pages.get(scope["path"], request)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 409 if scope["path"] == "/refuse" else 200,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": body})


async def main(inheritance: Inheritance) -> None:
    sockets = inheritance.listen_sockets()
    paths = [sockets.metrics.getsockname(), sockets.admin.getsockname()]
    server = LineServer(sockets, os.environ.get("WORKER_IS_READY", ""))
    worker = Worker(server, await Channel.open(inheritance.channel_end(), Order))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.leave)
    await worker.run()
    if worker.is_orphan:
        clear_away(paths)


if __name__ == "__main__":
    if status := int(os.environ.get("WORKER_EXITS", "0")):
        sys.exit(status)
    asyncio.run(main(Inheritance.parse(sys.argv[-1])))
