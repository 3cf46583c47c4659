"""ClientConnections: all connections of the public port, what they share, and the one clock that ends what takes too
long. A timer for each would cost more than serving a request's head does.
"""

from __future__ import annotations

import asyncio
import math

from gateway.edge.client_connection import ClientConnection
from gateway.edge.client_request import RequestHandler
from gateway.edge.outbox import Outbox
from gateway.edge.upload_budget import UploadBudget

UPLOAD_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 300.0
MAX_UPLOADS_BYTES = 1024 * 1000 * 1000
KEEP_ALIVE_S = 75.0  # above the idle time of clients and of load balancers (60 s), so that they close first
_LINGER_S = 2.0
_TICK_S = 1.0
_SLOWEST_UPLOAD = 1000  # bytes a second


class ClientConnections:
    """``upload_timeout_s``: how long a request's head may take, and how long its body may pause, or come
    with fewer than 1,000 bytes a second: who sends one now and then would hold what it has sent for ever.
    ``send_timeout_s``: how long a client may take nothing of what is written to it; then it is taken to have left.
    ``max_uploads_bytes``: of bodies that are being uploaded, together.
    """

    def __init__(
        self,
        handler: RequestHandler,
        *,
        outbox: Outbox | None = None,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
        keep_alive_s: float = KEEP_ALIVE_S,
        max_uploads_bytes: int = MAX_UPLOADS_BYTES,
    ) -> None:
        self.handler = handler
        self.outbox = outbox or Outbox()
        self.uploads = UploadBudget(max_uploads_bytes)
        self.parting = False  # every answer is the last on its connection
        self.draining = False
        self.tick_s = min(_TICK_S, upload_timeout_s / 4, send_timeout_s / 4, keep_alive_s / 4)
        self.upload_ticks = math.ceil(upload_timeout_s / self.tick_s)
        self.upload_bytes_per_tick = _SLOWEST_UPLOAD * self.tick_s
        self.send_ticks = math.ceil(send_timeout_s / self.tick_s)
        self.idle_ticks = math.ceil(keep_alive_s / self.tick_s)
        self.linger_ticks = math.ceil(_LINGER_S / self.tick_s)
        self._open: set[ClientConnection] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._ticking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def connect(self) -> ClientConnection:
        """A new one, for a transport."""
        return ClientConnection(self)

    def add(self, connection: ClientConnection) -> None:
        """It is open."""
        self._open.add(connection)
        self._none_left.clear()
        if self._ticking is None:
            self._tick_later()

    def discard(self, connection: ClientConnection) -> None:
        """It is closed."""
        self._open.discard(connection)
        if not self._open:
            self._none_left.set()

    def part(self) -> None:
        """Let every answer whose head has not gone out yet be the last on its connection."""
        self.parting = True
        for connection in self._open:
            connection.part()

    def drain(self) -> None:
        """Close every connection as soon as no request is on its way, or under way, there."""
        self.draining = True
        self.part()
        for connection in list(self._open):
            connection.close_if_idle()

    def stop_uploads(self) -> None:
        """Refuse every request of which not all is in: what runs is broken off."""
        for connection in list(self._open):
            connection.stop_upload()

    def abort(self) -> None:
        """End them all, at once, and those that are still to come."""
        self.drain()
        for connection in list(self._open):
            connection.abort()

    async def wait_none(self) -> None:
        """Return when all are closed."""
        await self._none_left.wait()

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(self.tick_s, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        for connection in list(self._open):
            connection.tick()
        if self._open:
            self._tick_later()
