"""Bodies are read as leniently as the engine reads them, and never crash the reader."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest
from gateway.prompt.json_body import JsonBody, is_unicode, read_flag

PIECES = [
    *b'{|}|[|]|,|:|"|\\|\\u|\\ud800|0|1|-|.|e|9e99|1e999|-0|"a"|"b":| |\n|\t|\0'.split(b"|"),
    *b"true|null|NaN|Infinity|-Infinity|nul|{}|[]|\xff|\xc3|\xa9|\xed\xa0\x80|\xef\xbb\xbf|\x7f|//".split(b"|"),
]


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
        b'{"a": [1, 2,]}',
        b'{"a": {"b": nul}}',
        b'{"a": "\\q"}',
        b'{"a": ["\xe2\x82"]}',
    ],
)
def test_refuses_what_is_no_object(body: bytes) -> None:
    """Broken, empty, nested beyond reason or not an object: a 400 in OpenAI's shape, without the body in it."""
    with pytest.raises(BadRequest) as refused:
        JsonBody.parse(body)

    assert json.loads(refused.value.body())["error"]["type"] == "invalid_request_error"
    assert len(refused.value.message) < 100


PAD = b" " * 70_000  # a body that is longer is read field by field


def test_a_value_that_no_parser_takes_is_null() -> None:
    """It is JSON by its grammar, so that shows only when it is read; the engine will refuse the body."""
    body = JsonBody.parse(PAD + b'{"a": ' + b"9" * 5000 + b', "b": [1e999, {}]}')

    assert [body.get("a"), body.integer("a"), body.get("b")] == [None, None, [float("inf"), {}]]


def test_a_value_is_read_once() -> None:
    """Whoever asks again gets the same object."""
    body = JsonBody.parse(PAD + b'{"a": {"b": [1]}, "c": null}')

    assert body.get("a") is body.get("a")
    assert (dict(body.fields), body.get("d")) == ({"a": {"b": [1]}, "c": None}, None)


def test_a_large_body_is_read_like_a_small_one() -> None:
    """An image, a long text, also where the quick parser gives up."""
    text = "é, [x] and so on " * 150_000
    for value in ("1", "NaN", '"\\ud83d"'):
        body = JsonBody.parse(f'{{"text": "{text}", "model": "m", "x": {value}}}'.encode())

        assert (body.text("text"), body.text("model"), body.is_outline) == (text, "m", False)

    assert JsonBody.parse(b'{"a": "' + b"A" * 20_000_000 + b'", "b": 1}').integer("b") == 1


MANY = b"[" + b"[]," * 600_000 + b"{}]"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "x", "n": 1, "messages": %b, "stream": true, "m\\u006fdel": "m"}' % MANY,
        b'{"model": "m", %b "stream": 1}' % b"".join(b'"%d":0,' % number for number in range(600_000)),
    ],
    ids=["values", "fields"],
)
def test_of_very_many_values_only_the_outline_is_read(body: bytes) -> None:
    """What routing needs without a prompt; as objects they would take seconds and gigabytes."""
    read = JsonBody.parse(body)

    assert (read.is_outline, read.text("model"), read.flag("stream", default=False)) == (True, "m", True)
    assert [read.get(name) for name in ("messages", "n", "1", "session_id")] == [None] * 4


@pytest.mark.parametrize(
    "body", [b'{"a": NaN, "b": %b}', b'{"b": %b', b"%b", b'{"b": %b, "a": tru}', b'{"model": %b}x']
)
def test_very_many_values_must_be_strict_json(body: bytes) -> None:
    """The parser that reads more would stop everything for seconds."""
    with pytest.raises(BadRequest):
        JsonBody.parse(body % MANY)


def test_the_outline_has_no_large_values() -> None:
    """Whatever stands where a name should."""
    body = JsonBody.parse(b'{"model": %b, "session_id": "s"}' % MANY)

    assert (body.get("model"), body.get("session_id")) == (None, "s")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])


@given(st.dictionaries(st.text(max_size=2), documents, max_size=4), st.booleans(), encodings)
def test_every_field_is_what_the_engine_s_parser_makes_of_it(
    fields: dict[str, Any], ascii_only: bool, encoding: str
) -> None:
    """In every encoding that it detects."""
    written = json.dumps(fields, ensure_ascii=ascii_only).encode(encoding, "surrogatepass")

    agrees_with_the_engine_s_parser(written)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.booleans())
def test_a_body_is_refused_where_the_engine_s_parser_refuses_it(noise: bytes, inside: bool) -> None:
    """Also where the mistake is in a value that nobody asks for."""
    agrees_with_the_engine_s_parser(b'{"a": %b}' % noise if inside else noise)


def agrees_with_the_engine_s_parser(body: bytes) -> None:
    """Both refuse it, or find the same: in a short body, and in a longer one."""
    for whole in (body, body + b" " * 70_000):
        try:
            theirs = json.loads(whole)
        except ValueError:
            theirs = None
        try:
            ours = JsonBody.parse(whole)
        except BadRequest:
            assert not isinstance(theirs, dict)
        else:
            assert repr(dict(ours.fields)) == repr(theirs)  # NaN is not equal to itself


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
