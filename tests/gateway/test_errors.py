"""Every error of ours has OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from gateway import errors

ALL = [
    errors.BadRequest("m", param="p"),
    errors.ModelNotFound("tiny"),
    errors.RouteNotFound("m"),
    errors.ServerNotFound("m"),
    errors.MethodNotAllowed("m", "POST"),
    errors.OrderConflict("m"),
    errors.BodyTooLarge("m"),
    errors.HeadersTooLarge("m"),
    errors.Unauthorized("m"),
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


def test_what_can_be_tried_again_says_when() -> None:
    """503 carries Retry-After."""
    assert errors.NoReplica("m").retry_after_s == 2
    assert errors.BadRequest("m").retry_after_s is None
