"""vLLM's error bodies."""

from __future__ import annotations

import json

import pytest

from loadtest.replica.api_error import ApiError, fault_error


def test_bodies_have_vllms_shape() -> None:
    """As captured: message, type, param, and the status as code."""
    assert json.loads(ApiError.unknown_model("nope", "tiny").body()) == {
        "error": {
            "message": "The model `nope` does not exist. Valid aliases: tiny.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }
    assert json.loads(ApiError.too_long(1100, 1024).body())["error"] == {
        "message": "This model's maximum context length is 1024 tokens. However, your prompt contains 1100 input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        "prompt. (parameter=input_tokens, value=1100)",
        "type": "BadRequestError",
        "param": "input_tokens",
        "code": 400,
    }


def test_any_status_can_be_injected() -> None:
    """Known ones say what vLLM says."""
    assert "busy" in fault_error(503).message
    assert fault_error(418).status == 418


@pytest.mark.parametrize("text", ["", "plain", "Grüße 👋🏽"])
def test_text_passes(text: str) -> None:
    """Whole characters of any kind."""
    ApiError.require_text(text)


def test_half_a_character_is_refused() -> None:
    """As vLLM's validation does, with 400."""
    with pytest.raises(ApiError) as refused:
        ApiError.require_text("a\ud800")

    assert refused.value.status == 400
