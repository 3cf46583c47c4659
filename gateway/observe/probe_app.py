"""The metrics port: /metrics, /livez and /readyz, read-only, as a plain ASGI app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ProbeApp:
    """``ready`` says whether the gateway takes requests."""

    def __init__(self, registry: CollectorRegistry, ready: Callable[[], bool]) -> None:
        self._registry = registry
        self._ready = ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, content_type, body = self._answer(scope)
        headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, scope: Scope) -> tuple[int, str, bytes]:
        text = "text/plain; charset=utf-8"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, text, b"method not allowed\n"
        match scope["path"]:
            case "/metrics":
                accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")
                encode, content_type = choose_encoder(accept)
                return 200, content_type, encode(self._registry)
            case "/livez":
                return 200, text, b"ok\n"
            case "/readyz" | "/ready" | "/health":
                return (200, text, b"ok\n") if self._ready() else (503, text, b"not ready\n")
        return 404, text, b"not found\n"
