"""What routing reads from a body, and that it never judges in the engine's place."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest
from gateway.prompt.inference_request import InferenceRequest

HELLO = [{"role": "user", "content": "Hello"}]


def chat(**fields: Any) -> InferenceRequest:
    return InferenceRequest.parse("chat", json.dumps({"model": "m", "messages": HELLO, **fields}).encode())


def completion(**fields: Any) -> InferenceRequest:
    return InferenceRequest.parse("completions", json.dumps({"model": "m", "prompt": "Hello", **fields}).encode())


def test_reads_a_chat() -> None:
    """The plain case: a prompt to render, comparable, no special tokens added."""
    request = chat(max_tokens=9)

    assert (
        request.route,
        request.model,
        request.stream,
        request.unrendered,
        request.incomparable,
    ) == ("chat", "m", False, "", "")
    assert (
        request.max_tokens,
        request.reads_cache,
        request.includes_usage,
        request.add_special_tokens,
    ) == (9, True, True, False)
    assert request.chat is not None


def test_max_completion_tokens_wins() -> None:
    """The newer name, as in vLLM; zero counts."""
    assert chat(max_tokens=9, max_completion_tokens=0).max_tokens == 0


def test_completions_have_openais_default_length() -> None:
    """16 tokens unless stated."""
    assert [completion(**fields).max_tokens for fields in ({}, {"max_tokens": None}, {"max_tokens": 5})] == [16, 16, 5]


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), ([1, 2], ((1, 2),)), ([[1, 2], [3]], ((1, 2), (3,))), ("", ("",))],
)
def test_reads_all_four_prompt_forms(prompt: object, prompts: object) -> None:
    """Texts and token ids, one or several; ids as they are."""
    request = completion(prompt=prompt)

    assert (prompts, "", True) == (request.prompts, request.unrendered, request.add_special_tokens)


@pytest.mark.parametrize("prompt", [None, [], [[]], 5, {}, [1, "a"], [1, True], [None], [-1], [2**32], [1.0], [["a"]]])
def test_odd_prompts_are_unrendered(prompt: object) -> None:
    """The engine refuses them; the gateway routes without a prompt."""
    request = completion(prompt=prompt)

    assert (request.prompts, request.unrendered) == ((), "prompt")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"chat_template": "{{ messages }}"}, "client_template"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "client_template"),
        ({"chat_template_kwargs": {"tools": []}}, "kwargs"),
        ({"chat_template_kwargs": 5}, "kwargs"),
        ({"documents": ["text"]}, "documents"),
        ({"tools": []}, "tools"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "image"),
        ({"truncate_prompt_tokens": 10}, "truncated"),
        ({"kv_transfer_params": {"prompt_token_ids": [1]}}, "forwarded_tokens"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"cache_salt": 5}, "cache_salt"),
        ({"cache_salt": "\ud800"}, "cache_salt"),
    ],
)
def test_unknown_prompts_have_a_reason(fields: dict[str, Any], reason: str) -> None:
    """Whatever makes the engine's tokens unknowable here."""
    request = chat(**fields)

    assert (None, reason) == (request.chat, request.unrendered)


@pytest.mark.parametrize(
    ("fields", "reason", "reads_cache"),
    [
        ({"prompt_logprobs": 0}, "prompt_logprobs", False),
        ({"echo": True}, "echo_logprobs", False),
        ({"echo": True, "top_logprobs": None}, "", True),
        ({"truncate_prompt_tokens": -1}, "truncated", True),
        ({"n": 2}, "several_choices", True),
        ({"use_beam_search": True}, "several_choices", True),
        ({"stream": True}, "no_usage", True),
        ({"stream": True, "stream_options": {"include_usage": False}}, "no_usage", True),
        ({"stream": True, "stream_options": {"include_usage": True}}, "", True),
        ({"stream": True, "prompt_logprobs": 1}, "prompt_logprobs", False),
    ],
)
def test_chats_that_say_nothing_about_the_cache(fields: dict[str, Any], reason: str, reads_cache: bool) -> None:
    """vLLM skips its prefix cache for prompt logprobs; elsewhere only the report is missing or different."""
    request = chat(**fields)

    assert (reason, reads_cache) == (request.incomparable, request.reads_cache)
    assert request.chat is not None


@pytest.mark.parametrize(
    ("fields", "reason", "reads_cache"),
    [
        ({"echo": True}, "", True),
        ({"echo": True, "logprobs": 0}, "echo_logprobs", False),
        ({"prompt": ["a", "b"]}, "several_prompts", True),
        ({"prompt": ["a"]}, "", True),
    ],
)
def test_completions_that_say_nothing_about_the_cache(fields: dict[str, Any], reason: str, reads_cache: bool) -> None:
    """echo alone computes no logprobs there; several prompts share one usage."""
    request = completion(**fields)

    assert (reason, reads_cache) == (request.incomparable, request.reads_cache)


def test_a_missing_model_is_no_error() -> None:
    """vLLM answers without one; which model it is, is the router's business."""
    assert [chat(model=model).model for model in (None, "")] + [
        InferenceRequest.parse("chat", b'{"messages": []}').model
    ] == ["", "", ""]


@pytest.mark.parametrize("model", [5, [], {}, True, "\ud800"])
def test_a_model_that_is_no_text_is_refused(model: object) -> None:
    """A 400 that names the field."""
    with pytest.raises(BadRequest) as refused:
        chat(model=model)

    assert refused.value.param == "model"


@pytest.mark.parametrize("route", ["chat", "completions"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(route: str, body: bytes) -> None:
    """Nothing can be routed on it."""
    with pytest.raises(BadRequest):
        InferenceRequest.parse(route, body)


def test_other_routes_take_any_body() -> None:
    """Multipart uploads name no model here; JSON bodies do. Neither is compared or rendered."""
    upload = InferenceRequest.parse("other", b"--boundary\r\n\xff", session="s")
    embedding = InferenceRequest.parse("other", b'{"model": "m", "input": "x", "session_id": "t", "stream": true}')

    assert (upload.model, upload.session, upload.unrendered, upload.incomparable) == ("", "s", "route", "route")
    assert (embedding.model, embedding.session, embedding.unrendered, embedding.stream) == ("m", "t", "route", True)


def test_a_header_s_session_wins() -> None:
    """Then the body's session_id; what is no text is none."""
    body = b'{"prompt": "a", "session_id": "body"}'

    assert InferenceRequest.parse("completions", body, session="header").session == "header"
    assert InferenceRequest.parse("completions", body).session == "body"
    assert completion(session_id=5).session == ""


def test_cache_salt_is_kept() -> None:
    """It separates block hashes."""
    assert [chat(cache_salt="s").cache_salt, chat().cache_salt] == ["s", ""]


def test_unknown_fields_change_nothing() -> None:
    """Thirty of them, with big numbers and odd names."""
    odd = {f"x-{i}\n": [2**200, None, {"": i}] for i in range(30)}

    assert chat(**odd).chat == chat().chat


@pytest.mark.parametrize("stream", ["true", 1, "on"])
def test_stream_is_lax(stream: object) -> None:
    """As pydantic reads it."""
    assert chat(stream=stream).stream


names = st.sampled_from(
    [
        "model",
        "messages",
        "prompt",
        "stream",
        "stream_options",
        "tools",
        "echo",
        "logprobs",
        "n",
        "cache_salt",
        "chat_template_kwargs",
        "documents",
        "max_tokens",
        "truncate_prompt_tokens",
        "kv_transfer_params",
        "session_id",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(["chat", "completions", "other"]), st.dictionaries(names, values, max_size=8))
def test_arbitrary_fields_parse_or_are_a_bad_request(route: str, fields: dict[str, Any]) -> None:
    """Only the model can be wrong; then a prompt is known or has a reason."""
    try:
        request = InferenceRequest.parse(route, json.dumps(fields).encode())
    except BadRequest:
        assert fields.get("model") is not None
        return
    assert bool(request.unrendered) == (request.chat is None and not request.prompts)
    hash((request.model, request.cache_salt.encode(), request.session.encode(), request.max_tokens))


@given(st.sampled_from(["chat", "completions", "other"]), st.binary(max_size=100))
def test_arbitrary_bytes_parse_or_are_a_bad_request(route: str, body: bytes) -> None:
    """No other way to end."""
    with contextlib.suppress(BadRequest):
        InferenceRequest.parse(route, body)
