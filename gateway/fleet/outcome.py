"""Outcome: how one attempt at one replica ended, and what that says about the server."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """Values are metric labels."""

    OK = "ok"  # a complete answer below 400
    CLIENT_ERROR = "client_error"  # the replica answered 4xx other than 429: the client's fault
    BUSY = "busy"  # 429: the replica pushes back; not its fault
    UNAVAILABLE = "unavailable"  # 503
    SERVER_ERROR = "server_error"  # any other 5xx
    UNREACHABLE = "unreachable"  # could not connect
    BROKEN = "broken"  # the connection broke, or what came was not HTTP
    TIMEOUT = "timeout"
    CLIENT_GONE = "client_gone"  # the client left first

    @property
    def is_failure(self) -> bool:
        """Whether the server's breaker counts it."""
        return self in _FAILURES


_FAILURES = frozenset({Outcome.UNAVAILABLE, Outcome.SERVER_ERROR, Outcome.UNREACHABLE, Outcome.BROKEN, Outcome.TIMEOUT})
