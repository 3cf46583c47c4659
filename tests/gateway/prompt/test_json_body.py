"""Bodies are read as leniently as the engine reads them, and never crash the reader."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest
from gateway.prompt.json_body import JsonBody, is_unicode, read_flag


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"a": NaN, "b": -Infinity}', {"b": float("-inf")}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"a": "ü"}'.encode("utf-16"), {"a": "ü"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"a": 1e999}', {"a": float("inf")}),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
        (b" \n{} ", {}),
    ],
)
def test_reads_what_the_engine_reads(body: bytes, fields: dict[str, object]) -> None:
    """NaN, a byte order mark, UTF-16, duplicate keys, huge numbers and lone surrogates are JSON to vLLM."""
    assert fields.items() <= JsonBody.parse(body).fields.items()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b"null",
        b"3",
        b'"text"',
        b"{}x",
        b'{"a": "\xff"}',
        b"[" * 100000,
        b'{"a":' * 100000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_refuses_what_is_no_object(body: bytes) -> None:
    """Broken, empty, nested beyond reason or not an object: a 400 in OpenAI's shape, without the body in it."""
    with pytest.raises(BadRequest) as refused:
        JsonBody.parse(body)

    assert json.loads(refused.value.body())["error"]["type"] == "invalid_request_error"
    assert len(refused.value.message) < 100


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_object_or_a_bad_request(body: bytes) -> None:
    """No other way to end."""
    with contextlib.suppress(BadRequest):
        JsonBody.parse(body)


@pytest.mark.parametrize(
    ("value", "flag"),
    [(True, True), (1, True), (1.0, True), ("TRUE", True), ("on", True), (False, False), (0, False), ("No", False)],
)
def test_flags_are_lax(value: object, flag: bool) -> None:
    """pydantic's table of what is a boolean."""
    assert [flag, flag] == [read_flag(value, default=True), read_flag(value, default=False)]


@pytest.mark.parametrize("value", [None, 2, "maybe", [], {}, float("nan")])
def test_what_is_no_flag_is_absent(value: object) -> None:
    """The engine refuses it or takes its default; so the default it is."""
    assert [read_flag(value, default=True), read_flag(value, default=False)] == [True, False]


def test_fields_of_the_wrong_type_are_absent() -> None:
    """Text and integers are read strictly: no conversion, no surrogates."""
    body = JsonBody({"t": 5, "s": "\ud800", "i": "5", "b": True, "f": 5.0}, 0)

    assert [body.text(name) for name in "tsx"] == ["", "", ""]
    assert [body.integer(name) for name in "ibfx"] == [None] * 4


def test_unicode_is_what_utf8_carries() -> None:
    """Everything but lone surrogates."""
    assert [is_unicode("a"), is_unicode("ü😀\0"), is_unicode("a\udfff")] == [True, True, False]
