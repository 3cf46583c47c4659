"""What may pass: one table of paths and methods. What is not in it is refused: no engine's new route opens by itself.

Paths are compared as the client wrote them, undecoded and without the query. A path that a server could read as
another one (``//``, ``/../``, ``%2e``, ``;``, a backslash, a slash at its end) is in no table, so it is not found:
vLLM redirects some of these, this gateway does not.

vLLM's routes that steer an engine, or show what no client has business with, are refused with a 403 that names the
setting which allows them. An allowed one goes to one replica, chosen like any other request's: who wants to reach
them all asks each by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from gateway.errors import BadRequest, MethodNotAllowed, RouteNotAllowed, RouteNotFound

UNKNOWN = "unknown"  # the kind of what is not in the table


class Route(NamedTuple):
    """``kind``: how its body is read (``InferenceRequest.parse``), and its name wherever it is counted."""

    kind: str
    methods: tuple[str, ...]


FREE = frozenset({"alive", "ready"})  # of API keys: orchestrators have none
LOCAL = FREE | {"models", "model"}  # answered here; all else is proxied

MODEL_PREFIX = "/v1/models/"
RESPONSE_PREFIX = "/v1/responses/"

_POST = ("POST",)
_GET = ("GET", "HEAD")

#: The routes of vLLM's inference, by kind.
INFERENCE: Mapping[str, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "chat_batch": "/v1/chat/completions/batch",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "cohere": "/cohere/v2/chat",
    "embeddings": "/v1/embeddings /v2/embed",
    "pooling": "/pooling /classify",
    "scoring": "/score /v1/score /rerank /v1/rerank /v2/rerank /generative_scoring /v1/systemone",
    "audio": "/v1/audio/transcriptions /v1/audio/translations",
    "tokenize": "/tokenize /detokenize /v1/messages/count_tokens",
    # Prompts to token ids and token ids to answers: no engine is steered by them
    "render": "/v1/chat/completions/render /v1/completions/render /v1/responses/render /v1/messages/render "
    "/cohere/v2/chat/render /v1/chat/completions/derender /v1/completions/derender",
    "generate": "/inference/v1/generate",
    "invocations": "/invocations",  # SageMaker's one route: a chat, a completion, an embedding, ...
}

_HERE: dict[str, Route] = {
    "/v1/models": Route("models", _GET),
    "/livez": Route("alive", _GET),
    "/health": Route("ready", _GET),
    "/ready": Route("ready", _GET),
    "/readyz": Route("ready", _GET),
    "/ping": Route("ready", (*_GET, "POST")),  # SageMaker sends requests from its first 200 on
}

_SHOWING = """
/docs /docs/oauth2-redirect /fault_tolerance/status /get_world_size /is_paused /is_sleeping /kv_event_sources /load
/metrics /openapi.json /redoc /server_info /tokenizer_info /v1/realtime /version /weight_info
"""
_STEERING = """
/abort_requests /collective_rpc /fault_tolerance/apply /finish_weight_update /inference/v1/abort_requests
/init_weight_transfer_engine /is_scaling_elastic_ep /pause /release_kv_cache_memory /reset_encoder_cache
/reset_mm_cache /reset_prefix_cache /resume /scale_elastic_ep /shutdown_weight_transfer_engine /sleep
/start_draft_weight_update /start_profile /start_weight_update /stop_profile /update_weight_version /update_weights
/v1/load_lora_adapter /v1/unload_lora_adapter /wake_up /weight_checker
"""
#: vLLM's other routes, by the methods they take.
CONTROL: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_SHOWING.split(), _GET),
    **dict.fromkeys(_STEERING.split(), _POST),
}
_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")  # of a route that only a setting knows

_STORED = Route("response", _GET)
_CANCEL = Route("response", _POST)
_MODEL = Route("model", _GET)
_CANCEL_SUFFIX = "/cancel"

# What a response's id may be made of: a segment (RFC 3986) that means the same decoded once more, without ";"
_ID = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@-]+")
_DOTS = frozenset({"", ".", ".."})


class Routes:
    """The table, with what the setting ``PREFIXWAY_ALLOW_ROUTES`` adds. Paths there are exact."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._table = _proxied() | _HERE
        for path in allowed:
            self._table.setdefault(path, Route("control", CONTROL.get(path, _ANY)))

    def find(self, path: str, method: str) -> Route:
        """Raises ``RouteNotFound``, ``RouteNotAllowed`` or ``MethodNotAllowed``."""
        route = self._table.get(path) or _with_a_name(path)
        if method not in route.methods:
            raise MethodNotAllowed(f"This path takes {', '.join(route.methods)} only.", ", ".join(route.methods))
        return route


def response_id(path: str) -> str:
    """The id in a path of kind ``response``, as a replica will read it; "" in every other path."""
    if not path.startswith(RESPONSE_PREFIX):
        return ""
    name = unquote(path[len(RESPONSE_PREFIX) :].removesuffix(_CANCEL_SUFFIX))
    return name if _ID.fullmatch(name) and name not in _DOTS else ""


def model_name(path: str) -> str:
    """The name in a path of kind ``model``, which may have slashes; "" in every other path."""
    name = unquote(path[len(MODEL_PREFIX) :]) if path.startswith(MODEL_PREFIX) else ""
    return "" if _DOTS.intersection(name.split("/")) else name


def refuse_websocket(upgrade: bytes) -> None:
    """Raises ``BadRequest`` if the value of a request's Upgrade header asks for a websocket."""
    if b"websocket" in upgrade.lower():
        raise BadRequest("Websockets are not served here.", code="websocket_not_supported")


def _proxied() -> dict[str, Route]:
    return {path: Route(kind, _POST) for kind, paths in INFERENCE.items() for path in paths.split()}


def _with_a_name(path: str) -> Route:
    """The route of a path that holds the id of a response or a model."""
    if response_id(path):
        return _CANCEL if path.endswith(_CANCEL_SUFFIX) else _STORED
    if model_name(path):
        return _MODEL
    if path in CONTROL or path.startswith("/static/"):
        raise RouteNotAllowed(path)
    raise RouteNotFound("This path is not served here.", code="route_not_found")
