"""EdgeApp: the ASGI application behind the public port. Finds the route, checks the key, answers or hands over.

Plain ASGI with one condition: it runs on :class:`gateway.edge.client_protocol.ClientProtocol`, which gives
it the answers to write. It does not know what a replica is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Generic
from urllib.parse import unquote

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from gateway.edge.auth import ApiKeys
from gateway.edge.client_request import ClientRequest
from gateway.edge.proxy import Proxy
from gateway.edge.routes import FREE, MODEL_PREFIX, PROXIED, UNKNOWN, Route, find_route
from gateway.edge.routing import PreparedT
from gateway.errors import GatewayError, ModelNotFound

_OK = b'{"status":"ok"}'
_NOT_READY = b'{"status":"not ready"}'


class EdgeApp(Generic[PreparedT]):
    """``models`` gives the JSON of ``/v1/models`` or raises ``NoReplica``; ``ready``: whether to send traffic here."""

    def __init__(
        self,
        proxy: Proxy[PreparedT],
        *,
        models: Callable[[], bytes],
        ready: Callable[[], bool],
        api_keys: ApiKeys,
    ) -> None:
        self._proxy = proxy
        self._models = models
        self._ready = ready
        self._api_keys = api_keys
        self._parting = False

    def part(self) -> None:
        """Let each answer to a request that comes from now on be the last on its connection, and say so."""
        self._parting = True

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, _send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        request = ClientRequest.of(scope, receive)
        request.answer.run_by(asyncio.current_task())
        if self._parting:
            request.answer.end_connection()
        try:
            route = self._admit(request)
            if route.kind in PROXIED:
                await self._proxy.serve(route.kind, request)
            else:
                self._answer_here(route, request)
        except GatewayError as error:
            self._proxy.refuse(UNKNOWN, request, error)
        except asyncio.CancelledError:
            if not request.answer.gone:
                raise  # the gateway is stopping; otherwise it was the client's leaving, and that is no error

    def _admit(self, request: ClientRequest) -> Route:
        """The route, if the client may use it. Without a key nobody learns which routes exist."""
        try:
            route = find_route(request.path, request.method)
        except GatewayError:
            self._api_keys.check(request.headers)
            raise
        if route.kind not in FREE:
            self._api_keys.check(request.headers)
        return route

    def _answer_here(self, route: Route, request: ClientRequest) -> None:
        status, body = 200, _OK
        if route.kind == "ready" and not self._ready():
            status, body = 503, _NOT_READY
        elif route.kind == "models":
            body = self._models()
        elif route.kind == "model":
            body = self._model(unquote(request.path.removeprefix(MODEL_PREFIX)))
        request.answer.respond(status, body, [(b"x-request-id", request.id.encode())])

    def _model(self, name: str) -> bytes:
        """One entry of the list of models."""
        for entry in json.loads(self._models())["data"]:
            if entry["id"] == name:
                return json.dumps(entry).encode()
        raise ModelNotFound(name)
