"""EdgeApp: who handles the requests of the public port. Finds the route, checks the key, answers or hands over.

It does not know what a replica is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Generic

from gateway.edge.auth import ApiKeys
from gateway.edge.client_request import ClientRequest
from gateway.edge.cors import Cors
from gateway.edge.proxy import Proxy
from gateway.edge.routes import FREE, LOCAL, UNKNOWN, Route, Routes, model_name, refuse_websocket
from gateway.edge.routing import PreparedT
from gateway.errors import GatewayError, ModelNotFound

MAX_BODY_BYTES = 64 * 1000 * 1000
MAX_UNUSED_BODY_BYTES = 64 * 1024  # of a request that has no use for one
_OK = b'{"status":"ok"}'
_NOT_READY = b'{"status":"not ready"}'
_NO_ROUTE = Route(UNKNOWN, ())


class EdgeApp(Generic[PreparedT]):
    """``models`` gives the JSON of ``/v1/models`` or raises ``NoReplica``; ``ready``: whether to send traffic here.

    ``unreadable`` is told of what was refused because it was no request.
    """

    def __init__(
        self,
        proxy: Proxy[PreparedT],
        *,
        routes: Routes,
        models: Callable[[], bytes],
        ready: Callable[[], bool],
        api_keys: ApiKeys,
        cors: Cors,
        max_body_bytes: int = MAX_BODY_BYTES,
        unreadable: Callable[[GatewayError], None] = lambda _: None,
    ) -> None:
        self._proxy = proxy
        self._routes = routes
        self._models = models
        self._ready = ready
        self._api_keys = api_keys
        self._cors = cors
        self.max_body_bytes = max_body_bytes
        self.unreadable = unreadable

    def stop(self) -> None:
        """Break off every answer that is under way, and say so where that is possible."""
        self._proxy.stop()

    # RequestHandler

    def begin(self, request: ClientRequest) -> None:
        """Raises what the request is refused with, before its body is read. Without a key nobody learns which routes
        exist.
        """
        request.id = self._proxy.request_id(request)
        if self._cors and self._greet_page(request):
            request.limit_body(MAX_UNUSED_BODY_BYTES)
            return
        try:
            if upgrade := request.header(b"upgrade"):
                refuse_websocket(upgrade)
            route = request.route = self._routes.find(request.path, request.method)
        except GatewayError:
            self._check_key(request)
            raise
        if route.kind not in FREE:
            self._check_key(request)
        if route.kind in LOCAL:
            request.limit_body(MAX_UNUSED_BODY_BYTES)
        if not request.complete:
            request.answer.on_gone = partial(self._proxy.client_left_early, route.kind, request)

    def serve(self, request: ClientRequest) -> None:
        route = request.route
        try:
            if route is None:
                self._answer_preflight(request)
            elif route.kind in LOCAL:
                self._answer_here(route, request)
            else:
                self._proxy.serve(route.kind, request)
        except GatewayError as error:
            self.refuse(request, error)

    def refuse(self, request: ClientRequest, error: GatewayError) -> None:
        route = request.route or _NO_ROUTE
        self._proxy.refuse(route.kind, request, error)

    # The rest

    def _check_key(self, request: ClientRequest) -> None:
        request.client = self._api_keys.check(request.headers)

    def _greet_page(self, request: ClientRequest) -> bool:
        """Tell a web page's browser what it wants to know. Whether that is all there is to answer: a preflight."""
        origin = request.header(b"origin")
        request.answer.extra_headers = self._cors.headers(
            origin
        )  # also without: a cache keeps the answer for pages too
        return bool(origin) and request.method == "OPTIONS" and bool(request.header(b"access-control-request-method"))

    def _answer_preflight(self, request: ClientRequest) -> None:
        """The same whatever the path is: it carries no key, and is to learn nothing of the routes."""
        allowed = self._cors.preflight(request.header(b"access-control-request-headers"))
        request.answer.start(204, [(b"x-request-id", request.id.encode()), *allowed], has_length=False)
        request.answer.send(b"", last=True)

    def _answer_here(self, route: Route, request: ClientRequest) -> None:
        status, body = 200, _OK
        if route.kind == "ready" and not self._ready():
            status, body = 503, _NOT_READY
        elif route.kind == "models":
            body = self._models()
        elif route.kind == "model":
            body = self._model(model_name(request.path))
        request.answer.respond(status, body, [(b"x-request-id", request.id.encode())])

    def _model(self, name: str) -> bytes:
        """One entry of the list of models."""
        for entry in json.loads(self._models())["data"]:
            if entry["id"] == name:
                return json.dumps(entry).encode()
        raise ModelNotFound(name)
