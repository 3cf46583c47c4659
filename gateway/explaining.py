"""Explaining: what would be decided for a request body, read as the public port reads it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter

from gateway.edge.aliases import ModelAliases
from gateway.edge.routes import LOCAL, Routes, response_id
from gateway.errors import NoReplica, RouteNotFound
from gateway.fleet.discovery.discovery import Discovery
from gateway.observe.explain_route import explain_route
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.router import Router
from gateway.settings import Settings

#: The route that takes a body for what its fields say, as vLLM does.
DEFAULT_PATH = "/invocations"
_PATIENCE_S = 3.0


class Explaining:
    """``aliases``: further names of models. ``discovery`` finds who may be chosen at all; its first answer is waited
    for up to ``patience_s``.
    """

    def __init__(
        self,
        router: Router,
        routes: Routes,
        aliases: ModelAliases,
        discovery: Discovery,
        *,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._router = router
        self._discovery = discovery
        self._patience_s = patience_s
        self._routes = routes
        self._aliases = aliases

    async def explain(self, path: str, body: bytes, content_type: bytes, strategy: str) -> dict[str, object]:
        """``path``: of the public port; "": the body's fields tell. ``strategy`` "": the one in force.

        Raises ``GatewayError`` as that request would, but for want of a replica: the answer says so. Who cannot be
        found at all is not explained: ``NoReplica`` says why.
        """
        path = path or DEFAULT_PATH
        route = self._routes.find(path, "POST")
        if route.kind in LOCAL:
            raise RouteNotFound(f"{path} is answered by the gateway itself.", code="route_not_found")
        request = InferenceRequest.parse(route.kind, body, content_type=content_type, response_id=response_id(path))
        if self._aliases:
            request, _ = self._aliases.resolve(request, body)
        await self._until_found()
        explanation = await self._router.explain(request, strategy=strategy or None)
        return {"path": path, **explanation.json()}

    async def _until_found(self) -> None:
        """A gateway that has just started may not know yet who is there. Raises ``NoReplica``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self._discovery.answered.wait()
        if not self._discovery.answered.is_set():
            raise NoReplica(f"Replicas were not found yet: {self._discovery.fault or 'no answer'}.")


def explain_routes(settings: Settings, router: Router, discovery: Discovery) -> APIRouter:
    """For the admin port."""
    routes, aliases = Routes(settings.allow_routes), ModelAliases(settings.model_aliases)
    explaining = Explaining(router, routes, aliases, discovery)
    return explain_route(explaining.explain, int(settings.max_body_mb * 1_000_000))
