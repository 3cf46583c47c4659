"""Every error of ours has OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from gateway import errors

ALL = [
    errors.BadRequest("m", param="p"),
    errors.ModelNotFound("tiny"),
    errors.RouteNotFound("m"),
    errors.ForeignPage(),
    errors.ServerNotFound("m"),
    errors.MethodNotAllowed("m", "POST"),
    errors.OrderConflict("m"),
    errors.BodyTooLarge("m"),
    errors.HeadersTooLarge("m"),
    errors.Unauthorized("m"),
    errors.Overloaded(3),
    errors.QueueTimeout(30.0, 3),
    errors.UploadsFull(),
    errors.NoReplica("m"),
    errors.OrdersUnavailable("m"),
    errors.Stopping(),
    errors.ReplicaUnreachable("m"),
    errors.ReplicaTimeout("m"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_the_body_is_an_error_object(error: errors.GatewayError) -> None:
    """message, type, param and code; a status of 4xx or 5xx."""
    body = json.loads(error.body())

    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"] == str(error)
    assert 400 <= error.status < 600


def test_a_detail_is_told_where_it_may_be_read() -> None:
    """Which servers there are, and what is wrong with them, is nothing for every tenant."""
    error = errors.NoReplica("No replica is healthy.", "a: gone")
    plain, detailed = (json.loads(error.body(detailed=detailed))["error"] for detailed in (False, True))

    assert (str(error), plain["message"]) == ("No replica is healthy.", "No replica is healthy.")
    assert detailed == {**plain, "message": "No replica is healthy. a: gone"}
    assert errors.BadRequest("m").body(detailed=True) == errors.BadRequest("m").body()


def test_what_can_be_tried_again_says_when() -> None:
    """503 carries Retry-After."""
    assert errors.NoReplica("m").retry_after_s == 2
    assert errors.BadRequest("m").retry_after_s is None
    assert errors.Overloaded(7).headers() == [(b"retry-after", b"7")]
    assert errors.QueueTimeout(0.5, 7).headers() == [(b"retry-after", b"7")]


def test_what_http_wants_beside_a_status_is_there() -> None:
    """405 says what is allowed, 401 names a scheme; the others need nothing."""
    assert errors.MethodNotAllowed("m", "GET, HEAD").headers() == [(b"allow", b"GET, HEAD")]
    assert errors.Unauthorized("m").headers() == [(b"www-authenticate", b"Bearer")]
    assert errors.BadRequest("m").headers() == []


def test_a_long_model_name_is_not_sent_back_whole() -> None:
    """Its beginning tells which it was."""
    assert errors.ModelNotFound("x" * 1_000_000).message == f"The model '{'x' * 128}' does not exist."


def test_a_model_behind_an_alias_is_told_by_both_names() -> None:
    """The client knows the one, who runs the gateway the other."""
    assert (
        errors.ModelNotFound("org/m", "prod").message == "The model 'org/m', which 'prod' stands for, does not exist."
    )
