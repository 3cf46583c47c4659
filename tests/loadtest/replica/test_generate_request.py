"""Reading bodies: the fields that matter, and that nothing else than an ApiError ever comes of a bad one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replica.api_error import ApiError
from loadtest.replica.generate_request import GenerateRequest, read_json

_KEYS = st.sampled_from(
    "model messages prompt stream stream_options max_tokens max_completion_tokens cache_salt session_id tools "
    "request_id vllm_xargs chat_template_kwargs echo logprobs prompt_logprobs ignore_eos role content".split()
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_KEYS, _JSON), st.booleans())
def test_a_wrong_body_is_an_api_error(body: dict[str, Any], is_chat: bool) -> None:
    """Whatever types its fields have."""
    with suppress(ApiError):
        GenerateRequest.parse(body, is_chat=is_chat)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_object_are_an_api_error(raw: bytes) -> None:
    """Broken JSON, other JSON, no text at all."""
    with suppress(ApiError):
        assert isinstance(read_json(raw), dict)


def test_reads_the_fields_of_a_chat() -> None:
    """Those of the engine, and those of the template, kwargs last."""
    call = GenerateRequest.parse(
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function"}],
            "chat_template_kwargs": {"thinking": False},
            "max_tokens": 5,
            "max_completion_tokens": 7,
            "cache_salt": "s",
            "stream": True,
            "stream_options": {"include_usage": True},
            "vllm_xargs": {"kv_cache_report_mode": "full"},
            "anything": {"else": 1},
        },
        is_chat=True,
    )

    assert call.template == {"tools": [{"type": "function"}], "thinking": False}
    assert (call.max_tokens, call.cache_salt) == (7, "s")
    assert (call.stream, call.includes_usage, call.reannounce, call.reads_cache) == (True, True, True, True)


@pytest.mark.parametrize("fields", [{"prompt_logprobs": 0}, {"echo": True, "logprobs": 1}])
def test_what_needs_every_tokens_logits_skips_the_cache(fields: dict[str, Any]) -> None:
    """As vLLM's skip_reading_prefix_cache."""
    assert not GenerateRequest.parse({"prompt": "x", **fields}, is_chat=False).reads_cache
    assert GenerateRequest.parse({"prompt": "x", "echo": True}, is_chat=False).reads_cache
