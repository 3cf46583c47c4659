"""An exchange that ended."""

from __future__ import annotations

from gateway.router.exchange import Exchange
from gateway.usage import Usage
from tests.gateway.examples import MODEL, a_decision


def an_exchange(**changes: object) -> Exchange:
    """A streamed chat that went well, with something in every field."""
    fields: dict[str, object] = {
        "route": "chat",
        "request_id": "r1",
        "received_s": 10.0,
        "prepared_s": 10.001,
        "decided_s": 10.002,
        "first_byte_s": 10.5,
        "ended_s": 12.0,
        "model": MODEL,
        "stream": True,
        "status": 200,
        "outcome": "ok",
        "attempts": 1,
        "bytes_out": 4321,
        "usage": Usage(1925, 7, 640),
        "decision": a_decision(),
    }
    return Exchange(**{**fields, **changes})  # type: ignore[arg-type]
