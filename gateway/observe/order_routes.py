"""The admin port's routes for orders: JSON in, JSON out."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec
from fastapi import APIRouter, Request

from gateway.errors import BadRequest

_BodyT = TypeVar("_BodyT")


class Desk(Protocol):
    """What the routes need. :class:`gateway.observe.order_desk.OrderDesk` is the one."""

    def orders(self) -> dict[str, object]: ...

    def strategy(self) -> dict[str, object]: ...

    async def set_strategy(self, name: str, author: str, id_: str) -> dict[str, object]: ...

    async def clear_strategy(self, author: str, id_: str) -> dict[str, object]: ...

    async def drain(self, server: str, author: str, id_: str) -> dict[str, object]: ...

    async def undrain(self, server: str, author: str, id_: str) -> dict[str, object]: ...


class _Clearing(msgspec.Struct):
    author: str = ""
    id: str = ""


class _Setting(msgspec.Struct):
    name: str
    author: str = ""
    id: str = ""


class _Draining(msgspec.Struct):
    server: str
    author: str = ""
    id: str = ""


def order_routes(desk: Desk) -> APIRouter:
    """Build them."""
    routes = APIRouter()

    @routes.get("/orders", response_model=None)
    async def orders() -> dict[str, object]:
        return desk.orders()

    @routes.get("/strategy", response_model=None)
    async def strategy() -> dict[str, object]:
        return desk.strategy()

    @routes.post("/strategy", response_model=None)
    async def set_strategy(request: Request) -> dict[str, object]:
        body = await _body(request, _Setting)
        return await desk.set_strategy(body.name, body.author, body.id)

    @routes.delete("/strategy", response_model=None)
    async def clear_strategy(request: Request) -> dict[str, object]:
        body = await _body(request, _Clearing, default=b"{}")
        return await desk.clear_strategy(body.author, body.id)

    @routes.post("/drain", response_model=None)
    async def drain(request: Request) -> dict[str, object]:
        body = await _body(request, _Draining)
        return await desk.drain(body.server, body.author, body.id)

    @routes.post("/undrain", response_model=None)
    async def undrain(request: Request) -> dict[str, object]:
        body = await _body(request, _Draining)
        return await desk.undrain(body.server, body.author, body.id)

    return routes


async def _body(request: Request, type_: type[_BodyT], default: bytes = b"") -> _BodyT:
    """Only as ``application/json``: a page in somebody's browser cannot send that here without being allowed to."""
    data = await request.body() or default
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json" and data != default:
        raise BadRequest("Send the body as application/json.")
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is not what it should be: {error}.") from error
