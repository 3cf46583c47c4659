"""What routing reads from a body, and that it never judges in the engine's place."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.routes import INFERENCE
from gateway.errors import BadRequest
from gateway.prompt.inference_request import InferenceRequest

HELLO = [{"role": "user", "content": "Hello"}]
KINDS = [*INFERENCE, "response", "control"]
FORM = b"multipart/form-data; boundary=xyz"


def a_form(**fields: str) -> bytes:
    """An upload with a file and ``fields``."""
    part = '--xyz\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    texts = "".join(part.format(name, value) for name, value in fields.items())
    file = '--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    return f"{texts}{file}--xyz--\r\n".encode()


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


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_prompt_of_very_many_values_is_too_long(kind: str) -> None:
    """It is routed without; the rest is known."""
    many = b"[" + b"[]," * 600_000 + b"1]"
    request = InferenceRequest.parse(
        kind, b'{"prompt": %b, "messages": %b, "model": "m", "stream": true, "max_tokens": 7}' % (many, many)
    )

    assert (request.unrendered, request.chat, request.prompts) == ("too_long", None, ())
    assert (request.model, request.stream, request.max_tokens, request.session) == ("m", True, 7, "")


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("audio", "control", "response")])
@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"model": "\xff"}', b"[" * 100_000, b'{"model": "m"} x'],
)
def test_a_body_that_is_no_object_is_refused(kind: str, body: bytes) -> None:
    """Nothing can be routed on it, and the engine would not take it either."""
    with pytest.raises(BadRequest):
        InferenceRequest.parse(kind, body)


@pytest.mark.parametrize("kind", ["chat", "embeddings", "responses", "invocations"])
@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"model": "m"}',
        '{"model": "m"}'.encode("utf-16"),
        b'{"model": "n", "model": "m"}',
        b'{"model": "m", "temperature": NaN}',
        b'{"model": "m", "x": ' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_what_the_engine_reads_is_read(kind: str, body: bytes) -> None:
    """A byte order mark, other encodings, the last of two, NaN, and what is nested deeply but not too deeply."""
    assert InferenceRequest.parse(kind, body).model == "m"


def test_other_inference_names_its_model() -> None:
    """Its prompt is neither read nor compared."""
    body = b'{"model": "m", "input": "x", "session_id": "t", "stream": true}'
    for kind, reason in (("scoring", "pairs"), ("generate", "route"), ("cohere", "route"), ("tokenize", "route")):
        request = InferenceRequest.parse(kind, body)

        assert (request.route, request.model, request.stream, request.session) == ("other", "m", True, "t")
        assert (request.unrendered, request.incomparable, request.prompts, request.chat) == (reason, "route", (), None)


@pytest.mark.parametrize(
    ("kind", "fields", "route", "special_tokens"),
    [
        ("responses", {"input": "x"}, "responses", True),
        ("messages", {"messages": HELLO}, "messages", False),
        ("chat_batch", {"messages": [HELLO]}, "chat_batch", False),
        ("embeddings", {"messages": HELLO}, "pooling", False),
        ("embeddings", {"messages": HELLO, "add_special_tokens": True}, "pooling", True),
        ("pooling", {"input": [HELLO]}, "pooling", False),
    ],
)
def test_other_forms_are_chats(kind: str, fields: dict[str, Any], route: str, special_tokens: bool) -> None:
    """vLLM tokenizes what a template made of them with special tokens added, or without."""
    request = InferenceRequest.parse(kind, json.dumps({"model": "m", **fields}).encode(), session="s")

    assert (request.route, request.model, request.session, request.unrendered) == (route, "m", "s", "")
    assert request.chat is not None
    assert (request.prompts, request.add_special_tokens) == ((), special_tokens)


@pytest.mark.parametrize(("fields", "special_tokens"), [({}, True), ({"add_special_tokens": False}, False)])
def test_other_forms_are_texts(fields: dict[str, Any], special_tokens: bool) -> None:
    """Embeddings and the like."""
    request = InferenceRequest.parse("embeddings", json.dumps({"input": ["x", "y"], **fields}).encode())

    assert (request.chat, request.prompts, request.add_special_tokens) == (None, ("x", "y"), special_tokens)


@pytest.mark.parametrize(
    ("kind", "fields", "incomparable"),
    [
        ("responses", {"input": "x", "stream": True}, ""),
        ("responses", {"input": "x", "background": True}, "no_usage"),
        ("responses", {"input": "x", "truncation": "auto"}, "truncated"),
        ("messages", {"messages": HELLO, "stream": True, "n": 2}, ""),
        ("chat_batch", {"messages": [HELLO]}, "several_prompts"),
        ("embeddings", {"input": "x"}, "pooling"),
    ],
)
def test_what_other_forms_usage_tells(kind: str, fields: dict[str, Any], incomparable: str) -> None:
    """Streams of these need no option for it; embeddings never tell the cached tokens."""
    request = InferenceRequest.parse(kind, json.dumps(fields).encode())

    assert (request.incomparable, request.includes_usage) == (incomparable, True)


@pytest.mark.parametrize("kind", ["responses", "messages", "embeddings", "chat_batch"])
def test_a_salt_separates_other_forms_too(kind: str) -> None:
    """And one that the engine refuses is no prompt."""
    assert InferenceRequest.parse(kind, b'{"cache_salt": "s"}').cache_salt == "s"
    assert InferenceRequest.parse(kind, b'{"cache_salt": ""}').unrendered == "cache_salt"


@pytest.mark.parametrize("kind", ["responses", "messages", "embeddings", "chat_batch"])
def test_other_forms_of_very_many_values_are_too_long(kind: str) -> None:
    """As chats are."""
    many = b"[" + b"[]," * 600_000 + b"1]"
    request = InferenceRequest.parse(kind, b'{"input": %b, "messages": %b, "model": "m"}' % (many, many))

    assert (request.unrendered, request.chat, request.prompts, request.model) == ("too_long", None, (), "m")


def test_a_forgotten_body_is_not_read() -> None:
    """Of any form."""
    request = InferenceRequest.parse("responses", b'{"input": "x"}')
    request.forget_body()

    assert (request.chat, request.prompts, request.unrendered) == (None, (), "")


@pytest.mark.parametrize(
    ("kind", "fields", "tokens"),
    [
        ("embeddings", {"max_tokens": 5}, 0),
        ("scoring", {}, 0),
        ("messages", {"max_tokens": 5}, 5),
        ("responses", {"max_output_tokens": 7}, 7),
        ("responses", {}, None),
        ("responses", {"max_tokens": 7}, None),
        ("generate", {}, None),
    ],
)
def test_how_long_an_answer_may_be(kind: str, fields: dict[str, int], tokens: int | None) -> None:
    """As each route calls it; some answer with no tokens at all."""
    assert InferenceRequest.parse(kind, json.dumps(fields).encode()).max_tokens == tokens


@pytest.mark.parametrize(
    ("kind", "asks"),
    [
        ("chat", True),
        ("completions", True),
        ("embeddings", True),
        ("messages", True),
        ("tokenize", False),
        ("render", False),
        ("response", False),
        ("control", False),
    ],
)
def test_some_routes_are_answered_without_the_engine(kind: str, asks: bool) -> None:
    """What they are answered says nothing of it."""
    assert InferenceRequest.parse(kind, b"{}").asks_engine is asks


def test_a_stored_response_is_named_by_the_path_or_goes_on() -> None:
    """Whoever holds it is to be asked; where no body is read there may be one."""
    asked = InferenceRequest.parse("response", b"\xff", response_id="resp_1")
    going_on = InferenceRequest.parse("responses", b'{"model": "m", "input": "x", "previous_response_id": "resp_1"}')

    assert (asked.response_id, asked.model, asked.unrendered) == ("resp_1", "", "route")
    assert (going_on.response_id, going_on.model, going_on.unrendered) == ("resp_1", "m", "previous_response")
    for odd in (b"null", b"5", b'"\\ud800"'):
        assert InferenceRequest.parse("responses", b'{"previous_response_id": %b}' % odd).response_id == ""


@pytest.mark.parametrize(
    ("fields", "route"),
    [
        ({"messages": HELLO, "prompt": "x"}, "chat"),
        ({"prompt": "x"}, "completions"),
        ({"input": "x"}, "pooling"),
        ({"messages": None, "text_1": "x"}, "other"),
        ({"query": "x", "documents": []}, "other"),
        ({"data": "x"}, "pooling"),
    ],
)
def test_sagemakers_route_is_any_of_the_others(fields: dict[str, Any], route: str) -> None:
    """By the first field that tells, in vLLM's order."""
    request = InferenceRequest.parse("invocations", json.dumps({"model": "m", **fields}).encode())

    assert (request.route, request.model) == (route, "m")


def test_an_upload_names_its_model_in_a_field() -> None:
    """Beside the file, which nobody looks into."""
    upload = InferenceRequest.parse("audio", a_form(model="m", stream="true"), session="s", content_type=FORM)

    assert (upload.route, upload.model, upload.stream, upload.session) == ("other", "m", True, "s")
    assert (upload.unrendered, upload.incomparable, upload.max_tokens) == ("route", "route", 0)
    assert InferenceRequest.parse("audio", a_form(), content_type=FORM).model == ""


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (a_form(model="m"), FORM + b"x"),
        (a_form(model="m")[:-6], FORM),
        (a_form(model="m"), b"application/json"),
        (a_form(model="m"), b""),
        (a_form(model="m").replace(b'; filename="a.wav"', b""), FORM),
        (b"", FORM),
    ],
    ids=["boundary", "truncated", "json", "no type", "no file", "empty"],
)
def test_an_upload_that_cannot_be_read_is_refused(body: bytes, content_type: bytes) -> None:
    """The client's fault, and said so."""
    with pytest.raises(BadRequest):
        InferenceRequest.parse("audio", body, content_type=content_type)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"model": 5}'])
def test_an_allowed_control_route_takes_any_body(body: bytes) -> None:
    """Its meaning is the engine's; if it names a model, it goes to one that serves it."""
    assert InferenceRequest.parse("control", body).model == ""
    assert InferenceRequest.parse("control", b'{"model": "m"}').model == "m"


def test_a_header_s_session_wins() -> None:
    """Then the body's session_id; what is no text is none."""
    body = b'{"prompt": "a", "session_id": "body"}'

    assert InferenceRequest.parse("completions", body, session="header").session == "header"
    assert InferenceRequest.parse("completions", body).session == "body"
    assert completion(session_id=5).session == ""


@pytest.mark.parametrize("kind", ["chat", "completions", "responses", "messages", "pooling"])
def test_without_a_session_what_comes_nearest_names_it(kind: str) -> None:
    """A cache key, else the user, else the user of Anthropic's metadata: requests of one share prompts."""
    given: dict[str, Any] = {
        "session_id": "session",
        "prompt_cache_key": "key",
        "user": "user",
        "metadata": {"user_id": "a user's session"},
    }
    named = []
    while given:
        named.append(InferenceRequest.parse(kind, json.dumps(given).encode()).session)
        del given[next(iter(given))]

    assert named == ["session", "key", "user", "a user's session"]


@pytest.mark.parametrize("metadata", [None, [], "text", {}, {"user_id": 5}, {"user_id": "\ud800"}])
def test_metadata_that_names_nobody_is_no_session(metadata: object) -> None:
    """Nor is it anything else."""
    assert chat(metadata=metadata).session == ""


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
        "prompt_cache_key",
        "user",
        "metadata",
        "user_id",
        "input",
        "instructions",
        "system",
        "thinking",
        "reasoning",
        "type",
        "role",
        "content",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from([kind for kind in KINDS if kind != "audio"]), st.dictionaries(names, values, max_size=8))
def test_arbitrary_fields_parse_or_are_a_bad_request(kind: str, fields: dict[str, Any]) -> None:
    """Only the model can be wrong; then a prompt is known or has a reason."""
    try:
        request = InferenceRequest.parse(kind, json.dumps(fields).encode(), response_id="x")
    except BadRequest:
        assert fields.get("model") is not None
        return
    assert bool(request.unrendered) == (request.chat is None and not request.prompts)
    hash((request.model, request.cache_salt.encode(), request.session.encode(), request.max_tokens))


@given(st.sampled_from(KINDS), st.binary(max_size=100))
def test_arbitrary_bytes_parse_or_are_a_bad_request(kind: str, body: bytes) -> None:
    """No other way to end."""
    with contextlib.suppress(BadRequest):
        InferenceRequest.parse(kind, body, content_type=FORM, response_id="x")
