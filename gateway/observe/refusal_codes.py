"""Refusal codes: what the gateway's own errors are counted under. A fixed set, since each is a label."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.errors import GatewayError

OTHER = "other"

#: Every ``code`` of an error that a request on the public port may be answered with.
CODES = frozenset(
    {
        "gateway_fault",
        "invalid_api_key",
        "model_not_found",
        "model_required",
        "no_replica",
        "queue_timeout",
        "rate_limit_exceeded",
        "replica_broke_off",
        "replica_timeout",
        "replica_unreachable",
        "request_timeout",
        "response_not_found",
        "route_not_allowed",
        "route_not_found",
        "stopping",
        "uploads_full",
        "websocket_not_supported",
    }
)


def refusal_code(code: str, error: str) -> str:
    """The label of an error with ``code``; of one without, by its class ``error``: ``BadRequest`` as bad_request."""
    if code:
        return code if code in CODES else OTHER
    return _OF_CLASS.get(error, OTHER)


def _classes(base: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    yield base
    for derived in base.__subclasses__():
        yield from _classes(derived)


_OF_CLASS = {error.__name__: re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower() for error in _classes()}
