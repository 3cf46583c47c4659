"""What may pass, and that there is one way to write it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.routes import CONTROL, FREE, INFERENCE, LOCAL, Routes, model_name, refuse_websocket, response_id
from gateway.errors import BadRequest, GatewayError, MethodNotAllowed, RouteNotAllowed, RouteNotFound

ROUTES = Routes()
LISTED = re.findall(r"Route: (\S+), Methods: (.+)", (Path(__file__).parents[2] / "data/vllm/routes.txt").read_text())


def kind(path: str, method: str = "POST") -> str:
    """What a request is taken for, or the name of the refusal."""
    try:
        return ROUTES.find(path, method).kind
    except GatewayError as error:
        return type(error).__name__


@pytest.mark.parametrize(("path", "methods"), LISTED)
def test_every_route_of_vllm_is_passed_or_refused_by_name(path: str, methods: str) -> None:
    """None is forgotten: inference passes with its methods, control routes are told to be refused on purpose."""
    path = path.replace("{response_id}", "resp_1")

    for method in methods.split(", "):
        found = kind(path, method)
        assert found not in ("RouteNotFound", "MethodNotAllowed")
        assert (found == "RouteNotAllowed") == (path in CONTROL)


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_control_routes_are_refused(path: str, method: str) -> None:
    """Nobody sleeps, loads or resets an engine through the gateway; the answer says how it could be allowed."""
    with pytest.raises(RouteNotAllowed, match="PREFIXWAY_ALLOW_ROUTES") as refused:
        ROUTES.find(path, method)

    assert (refused.value.status, refused.value.code) == (403, "route_not_allowed")


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize(
    "spelling", ["/{}", "{}/", "/.{}", "/x/..{}", "{}/.", "{};a", "{}%20", "{}%00", "/%2e{}", "{}\\", "//x{}", "{}?"]
)
def test_no_second_spelling_of_a_control_route_passes(path: str, spelling: str) -> None:
    """Paths are compared as they are written."""
    with pytest.raises(RouteNotFound):
        ROUTES.find(spelling.format(path), "POST")


@given(st.sampled_from(sorted(CONTROL)), st.data())
def test_no_encoding_of_a_control_route_passes(path: str, data: st.DataObject) -> None:
    """Any of its characters percent-encoded, in capitals or not."""
    at = data.draw(st.integers(0, len(path) - 1))
    code = data.draw(st.sampled_from(["%{:02x}", "%{:02X}", "%25{:02x}"])).format(ord(path[at]))

    with pytest.raises((RouteNotFound, MethodNotAllowed)):
        assert ROUTES.find(path[:at] + code + path[at + 1 :], "POST").kind in LOCAL


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%63ompletions",
        "//v1/completions",
        "/v1//completions",
        "/v1/completions/",
        "/v1/./completions",
        "/v1/models/../completions",
        "/v1/completions;v=1",
        "/v1\\completions",
        "/V1/completions",
        "",
        "*",
    ],
)
def test_other_spellings_of_a_passing_route_are_not_found(path: str) -> None:
    """One of them could mean something else to a server."""
    with pytest.raises(RouteNotFound) as error:
        ROUTES.find(path, "POST")
    assert error.value.code == "route_not_found"


def test_an_allowed_route_passes_with_its_methods() -> None:
    """A control route with vLLM's, one that only the setting knows with any; what is in the table stays as it is."""
    routes = Routes(["/reset_prefix_cache", "/v1/images/generations", "/v1/completions"])

    assert routes.find("/reset_prefix_cache", "POST").kind == "control"
    assert routes.find("/v1/images/generations", "PUT").kind == "control"
    assert routes.find("/v1/completions", "POST").kind == "completions"
    with pytest.raises(MethodNotAllowed):
        routes.find("/reset_prefix_cache", "GET")
    with pytest.raises(RouteNotAllowed):
        routes.find("/reset_mm_cache", "POST")


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/completions", "POST"),
        ("/health", "GET, HEAD"),
        ("/v1/models", "GET, HEAD"),
        ("/v1/models/tiny", "GET, HEAD"),
        ("/v1/responses/resp_1", "GET, HEAD"),
        ("/v1/responses/resp_1/cancel", "POST"),
        ("/ping", "GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(path: str, allow: str) -> None:
    """405 knows what would be allowed."""
    with pytest.raises(MethodNotAllowed) as error:
        ROUTES.find(path, "DELETE")
    assert error.value.allow == allow


@pytest.mark.parametrize(
    ("path", "id_"),
    [
        ("/v1/responses/resp_1", "resp_1"),
        ("/v1/responses/resp_1/cancel", "resp_1"),
        ("/v1/responses/resp%5F1", "resp_1"),
        ("/v1/responses/a.b:c", "a.b:c"),
        ("/v1/responses/...", "..."),
    ],
)
def test_a_stored_response_has_an_id(path: str, id_: str) -> None:
    """One segment, encoded or not."""
    assert response_id(path) == id_
    assert kind(path, "POST" if path.endswith("/cancel") else "GET") == "response"


@pytest.mark.parametrize("path", ["{}", "{}/cancel", "resp_1/{}", "{}/resp_1"])
@pytest.mark.parametrize(
    "segment", ["", ".", "..", "%2e%2E", ".%2e", "a%2Fb", "a%5Cb", "a\\b", "a;b", "a%3Bb", "a%00", "a%252e", "a%", "ä"]
)
def test_an_id_that_could_leave_its_segment_is_not_found(path: str, segment: str) -> None:
    """No slash, no dots alone, nothing that means another path once more decoded."""
    path = "/v1/responses/" + path.format(segment)

    assert response_id(path) == ""
    assert kind(path, "GET") == kind(path) == "RouteNotFound"


@given(st.text("aZ0._-~%2fFeE5cC/\\;: ", max_size=12))
def test_ids_are_safe(text: str) -> None:
    """Whatever is accepted is one segment that stays one."""
    found = response_id(f"/v1/responses/{text}")

    assert not set(found) & set("/\\;% ")
    assert found not in (".", "..")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/models/tiny", "tiny"),
        ("/v1/models/org/name", "org/name"),
        ("/v1/models/org%2Fname", "org/name"),
        ("/v1/models/", ""),
        ("/v1/models/org//name", ""),
        ("/v1/models/../completions", ""),
        ("/v1/models/%2e%2e/completions", ""),
        ("/v1/completions", ""),
    ],
)
def test_a_models_name_may_hold_slashes(path: str, name: str) -> None:
    """It is looked up here and goes nowhere."""
    assert model_name(path) == name
    assert (kind(path, "GET") == "model") == bool(name)


def test_what_is_known_of_a_route_is_its_kind() -> None:
    """How a body is read follows from it."""
    assert [kind(path) for path in ("/v1/chat/completions", "/v1/completions", "/v1/audio/translations", "/ping")] == [
        "chat",
        "completions",
        "audio",
        "ready",
    ]


def test_only_liveness_and_readiness_are_free_of_keys() -> None:
    """No proxied route is open without a key."""
    assert {path for path, _ in LISTED if kind(path, "GET") in FREE} == {"/health", "/ping"}
    assert [kind(path, "GET") for path in ("/livez", "/ready", "/readyz")] == ["alive", "ready", "ready"]


def test_websockets_are_refused_clearly() -> None:
    """Other upgrades may be ignored, and are."""
    refuse_websocket(b"h2c")
    for value in (b"websocket", b"WebSocket", b"h2c, websocket"):
        with pytest.raises(BadRequest) as refused:
            refuse_websocket(value)
        assert refused.value.code == "websocket_not_supported"


def test_every_route_is_documented() -> None:
    """Each on the page that says what passes."""
    page = (Path(__file__).parents[3] / "docs/routes.md").read_text()
    paths = {*" ".join(INFERENCE.values()).split(), *CONTROL}

    assert {path for path in paths if f"`{path}`" not in page} == set()
