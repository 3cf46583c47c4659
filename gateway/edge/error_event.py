"""error_event: the last event of a stream that its replica left unfinished, in the words of the API that was asked.

Every form has an ``error`` object in its ``data``: that is what the clients of OpenAI and Anthropic look for.
"""

from __future__ import annotations

import json

from gateway.errors import GatewayError

_NAMED = frozenset({"responses", "messages"})  # APIs whose events have names


def error_event(route: str, reason: GatewayError, *, mid_event: bool) -> bytes:
    """A whole server-sent event. ``mid_event``: the stream stands within another, which has to be ended first."""
    gap = b"\n\n" if mid_event else b""
    if route not in _NAMED:
        return b"%bdata: %b\n\n" % (gap, reason.body())
    error = reason.fields()
    typed: dict[str, object] = {"type": "error", "error": error}
    if route == "responses":
        typed |= {"code": error["code"], "message": error["message"], "param": error["param"]}
    return b"%bevent: error\ndata: %b\n\n" % (gap, json.dumps(typed, ensure_ascii=False).encode())
