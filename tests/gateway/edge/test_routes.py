from __future__ import annotations

from contextlib import suppress

import pytest

from gateway.edge.routes import FREE, PROXIED, ROUTES, find_route
from gateway.errors import MethodNotAllowed, RouteNotFound

# vLLM 0.32 has these too. They steer the engine, or show what a client has no business with.
CONTROL = """
/openapi.json /docs /redoc /load /version /kv_event_sources /metrics /v1/systemone /invocations /reset_prefix_cache
/reset_mm_cache /reset_encoder_cache /collective_rpc /server_info /sleep /release_kv_cache_memory /wake_up /is_sleeping
/pause /resume /abort_requests /is_paused /init_weight_transfer_engine /start_weight_update /update_weights
/weight_info /scale_elastic_ep /inference/v1/generate /inference/v1/abort_requests /v1/load_lora_adapter
/v1/unload_lora_adapter /generative_scoring /v1/chat/completions/render
""".split()


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_control_routes_are_refused(path: str, method: str) -> None:
    """Nobody sleeps, loads or resets an engine through the gateway."""
    with pytest.raises(RouteNotFound):
        find_route(path, method)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%63ompletions",
        "//v1/completions",
        "/v1/completions/",
        "/v1/models/../completions",
        "/V1/completions",
        "",
        "*",
    ],
)
def test_other_spellings_do_not_slip_through(path: str) -> None:
    """Paths are compared as written; none of these is proxied."""
    with suppress(RouteNotFound, MethodNotAllowed):
        assert find_route(path, "POST").kind not in PROXIED


def test_the_routes_with_knowledge_of_the_prompt() -> None:
    """Chat and completions are read for routing; other inference passes without."""
    assert find_route("/v1/chat/completions", "POST").kind == "chat"
    assert find_route("/v1/completions", "POST").kind == "completions"
    assert find_route("/v1/embeddings", "POST").kind == "other"


def test_a_models_name_may_hold_slashes() -> None:
    """``/v1/models/org/name`` is one model."""
    assert find_route("/v1/models/org/name", "GET").kind == "model"


@pytest.mark.parametrize(
    ("path", "allow"), [("/v1/completions", "POST"), ("/health", "GET, HEAD"), ("/v1/models", "GET")]
)
def test_a_wrong_method_is_told_the_right_ones(path: str, allow: str) -> None:
    """405 knows what would be allowed."""
    with pytest.raises(MethodNotAllowed) as error:
        find_route(path, "DELETE")
    assert error.value.allow == allow


def test_only_liveness_and_readiness_are_free_of_keys() -> None:
    """No proxied route is open without a key."""
    assert {path for path, route in ROUTES.items() if route.kind in FREE} == {
        "/livez",
        "/ping",
        "/health",
        "/ready",
        "/readyz",
    }
