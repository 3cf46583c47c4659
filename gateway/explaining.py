"""Explaining: what would be decided for a request body, read as the public port reads it."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.edge.aliases import ModelAliases
from gateway.edge.routes import LOCAL, Routes, response_id
from gateway.errors import RouteNotFound
from gateway.observe.explain_route import explain_route
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.router import Router
from gateway.settings import Settings

#: The route that takes a body for what its fields say, as vLLM does.
DEFAULT_PATH = "/invocations"


class Explaining:
    """``aliases``: further names of models."""

    def __init__(self, router: Router, routes: Routes, aliases: ModelAliases) -> None:
        self._router = router
        self._routes = routes
        self._aliases = aliases

    async def explain(self, path: str, body: bytes, content_type: bytes, strategy: str) -> dict[str, object]:
        """``path``: of the public port; "": the body's fields tell. ``strategy`` "": the one in force.

        Raises ``GatewayError`` as that request would, but for want of a replica: the answer says so.
        """
        path = path or DEFAULT_PATH
        route = self._routes.find(path, "POST")
        if route.kind in LOCAL:
            raise RouteNotFound(f"{path} is answered by the gateway itself.", code="route_not_found")
        request = InferenceRequest.parse(route.kind, body, content_type=content_type, response_id=response_id(path))
        if self._aliases:
            request, _ = self._aliases.resolve(request, body)
        explanation = await self._router.explain(request, strategy=strategy or None)
        return {"path": path, **explanation.json()}


def explain_routes(settings: Settings, router: Router) -> APIRouter:
    """For the admin port."""
    explaining = Explaining(router, Routes(settings.allow_routes), ModelAliases(settings.model_aliases))
    return explain_route(explaining.explain, int(settings.max_body_mb * 1_000_000))
