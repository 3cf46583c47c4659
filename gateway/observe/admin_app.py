"""The admin port, a FastAPI app: /status, /replicas, /explain, orders. With a token set, every request must carry it.

Without one it listens on loopback, where web pages reach it through the browser of whoever sits there: by another
origin, or by a name of theirs that their DNS turns into 127.0.0.1. Both are refused.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from gateway import __version__
from gateway.errors import ForeignPage, GatewayError, MethodNotAllowed, RouteNotFound, Unauthorized
from gateway.observe.order_routes import Desk, order_routes


def admin_app(
    status: Callable[[], dict[str, object]],
    replicas: Callable[[], list[dict[str, object]]],
    token: str,
    desk: Desk | None = None,
    more: Iterable[APIRouter] = (),
) -> FastAPI:
    """Build it. ``token`` "" asks for none: then the port must be loopback. Without a ``desk`` no orders are taken.

    ``more``: further routes.
    """
    app = FastAPI(title="Prefixway admin", version=__version__, docs_url=None, redoc_url=None)
    guard(app, token)

    # Coroutines, because FastAPI runs plain functions in a thread, and these pages read the event loop's own state.
    @app.get("/status", response_model=None)
    async def status_page() -> dict[str, object]:
        return status()

    @app.get("/replicas", response_model=None)
    async def replicas_page() -> list[dict[str, object]]:
        return replicas()

    if desk is not None:
        app.include_router(order_routes(desk))
    for routes in more:
        app.include_router(routes)
    return app


def guard(app: FastAPI, token: str) -> None:
    """Ask for the token on every path of ``app``; without one keep out foreign pages. Errors have OpenAI's shape."""

    @app.middleware("http")
    async def authorise(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and not secrets.compare_digest(sent.encode(), token.encode()):
            return _answer(Unauthorized("The admin token is missing or wrong.", code="invalid_admin_token"))
        if not token and _is_foreign(request):
            return _answer(ForeignPage())
        return await call_next(request)

    @app.exception_handler(GatewayError)
    async def refuse(_: Request, error: GatewayError) -> Response:
        return _answer(error)

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allow = (error.headers or {}).get("Allow", "")
            return _answer(MethodNotAllowed(f"{request.url.path} takes {allow}.", allow), {"allow": allow})
        return _answer(RouteNotFound(f"There is no {request.url.path} here."))


def _is_foreign(request: Request) -> bool:
    """Whether a web page may be behind it that is not this port's own. Browsers always send a Host."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    return not _is_local(host) or (origin is not None and origin != f"http://{host}")


def _is_local(host: str) -> bool:
    """Whether no DNS has a say in what ``host[:port]`` means."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _answer(error: GatewayError, headers: dict[str, str] | None = None) -> Response:
    headers = headers or {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(error.retry_after_s)
    return Response(error.body(), error.status, headers, media_type="application/json")
