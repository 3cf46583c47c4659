"""The admin port's /explain: an inference body in, what would be decided for it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request

from gateway.errors import BodyTooLarge

STRATEGY_HEADER = "x-prefixway-strategy"

#: Of the public port's path ("": by the body's fields), a body, its content type and a strategy's name ("": that in
#: force). Raises ``GatewayError``.
Explain = Callable[[str, bytes, bytes, str], Awaitable[dict[str, object]]]


def explain_route(explain: Explain, max_body_bytes: int) -> APIRouter:
    """``POST /explain?path=/v1/chat/completions&strategy=kv_aware``. A header may name the strategy, too."""
    routes = APIRouter()

    @routes.post("/explain", response_model=None)
    async def explanation(request: Request, path: str = "", strategy: str = "") -> dict[str, object]:
        wanted = strategy or request.headers.get(STRATEGY_HEADER, "")
        content_type = request.headers.get("content-type", "").encode("latin-1")
        return await explain(path, await read_body(request, max_body_bytes), content_type, wanted)

    return routes


async def read_body(request: Request, limit: int) -> bytes:
    """Raises ``BodyTooLarge`` as soon as there are more than ``limit`` bytes of it."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise BodyTooLarge(f"The body is larger than {limit} bytes.")
    return bytes(body)
