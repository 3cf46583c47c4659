"""An outbox that sends nothing and needs no event loop."""

from __future__ import annotations

from gateway.edge.outbox import Outbox, Transport


class ClosedOutbox(Outbox):
    """Whatever is written stays nowhere."""

    def __init__(self) -> None: ...

    def write(self, transport: Transport, data: bytes) -> None: ...

    def flush(self) -> None: ...
