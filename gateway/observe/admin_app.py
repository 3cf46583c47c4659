"""The admin port, a FastAPI app: /status and /replicas. With a token set, every request must carry it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gateway import __version__


def admin_app(
    status: Callable[[], dict[str, object]], replicas: Callable[[], list[dict[str, object]]], token: str
) -> FastAPI:
    """Build it. ``token`` "" asks for none: then the port must be loopback."""
    app = FastAPI(title="Prefixway admin", version=__version__, docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def authorise(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and not secrets.compare_digest(sent.encode(), token.encode()):
            return JSONResponse({"detail": "the admin token is missing or wrong"}, status_code=401)
        return await call_next(request)

    app.add_api_route("/status", status, methods=["GET"], response_model=None)
    app.add_api_route("/replicas", replicas, methods=["GET"], response_model=None)
    return app
