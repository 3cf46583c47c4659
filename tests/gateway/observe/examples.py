"""Exchanges that ended."""

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


def several_exchanges() -> list[Exchange]:
    """Endings of many kinds: retried, refused, left, of a model that nobody serves."""
    image = a_decision(replica_id="b", reason="rotation", prompt_tokens=0, prompt_reason="image", expected_tokens=0)
    nothing: dict[str, object] = {"first_byte_s": 0.0, "decision": None, "usage": None}
    never: dict[str, object] = {"received_s": 0.0, "prepared_s": 0.0, "decided_s": 0.0, "ended_s": 0.0}
    return [
        an_exchange(),
        an_exchange(received_s=1.5, decided_s=1.50025, first_byte_s=1.505, ended_s=241.5, usage=Usage(1925, 7, 320)),
        an_exchange(route="completions", status=429, outcome="busy", attempts=3, usage=None, decision=image),
        an_exchange(model="strange", decision=a_decision(strategy="round_robin", incomparable="echo_logprobs")),
        an_exchange(status=0, outcome="client_gone", **nothing),
        an_exchange(route="unknown", model="", status=404, outcome="refused", attempts=0, **nothing, **never),
    ]
