"""What may pass: one table. What is not in it is refused: no engine's new control route is open by accident.

Paths are compared as the client wrote them, undecoded and without the query: no second spelling slips through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.errors import MethodNotAllowed, RouteNotFound

UNKNOWN = "unknown"  # the kind of what is not in the table


class Route(NamedTuple):
    """``kind``: how a body is read for routing, and the route's name wherever it is counted."""

    kind: str  # chat, completions, other; or a local answer: alive, ready, models, model
    methods: tuple[str, ...]


_OTHER = Route("other", ("POST",))
_ALIVE = Route("alive", ("GET", "HEAD"))
_READY = Route("ready", ("GET", "HEAD"))

ROUTES: Mapping[str, Route] = {
    "/v1/chat/completions": Route("chat", ("POST",)),
    "/v1/completions": Route("completions", ("POST",)),
    # Inference without knowledge of the prompt
    "/v1/embeddings": _OTHER,
    "/v1/responses": _OTHER,
    "/v1/messages": _OTHER,
    "/v1/messages/count_tokens": _OTHER,
    "/v1/rerank": _OTHER,
    "/v2/rerank": _OTHER,
    "/rerank": _OTHER,
    "/v1/score": _OTHER,
    "/score": _OTHER,
    "/pooling": _OTHER,
    "/classify": _OTHER,
    "/tokenize": _OTHER,
    "/detokenize": _OTHER,
    "/v1/audio/transcriptions": _OTHER,
    "/v1/audio/translations": _OTHER,
    # Answered here
    "/v1/models": Route("models", ("GET",)),
    "/livez": _ALIVE,
    "/ping": _ALIVE,
    "/health": _READY,
    "/ready": _READY,
    "/readyz": _READY,
}
_MODEL = Route("model", ("GET",))
MODEL_PREFIX = "/v1/models/"

PROXIED = frozenset({"chat", "completions", "other"})
FREE = frozenset({"alive", "ready"})  # of API keys: orchestrators have none


def find_route(path: str, method: str) -> Route:
    """Raises ``RouteNotFound`` or ``MethodNotAllowed``."""
    route = ROUTES.get(path)
    if route is None:
        if not path.startswith(MODEL_PREFIX):
            raise RouteNotFound("This path is not served here.", code="route_not_found")
        route = _MODEL
    if method not in route.methods:
        allow = ", ".join(route.methods)
        raise MethodNotAllowed(f"This path takes {allow} only.", allow)
    return route
