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

    # Coroutines, because FastAPI runs plain functions in a thread, and these pages read the event loop's own state.
    @app.get("/status", response_model=None)
    async def status_page() -> dict[str, object]:
        return status()

    @app.get("/replicas", response_model=None)
    async def replicas_page() -> list[dict[str, object]]:
        return replicas()

    return app
