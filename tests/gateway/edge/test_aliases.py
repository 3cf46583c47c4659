"""Aliases: only the name changes, both ways, whatever stands around it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.aliases import ModelAliases, is_json
from gateway.errors import BadRequest
from gateway.prompt.inference_request import InferenceRequest

MODEL = "org/rëal-model 🦙"
ALIAS = 'nick "näme"'
ALIASES = ModelAliases({"nick": "real", ALIAS: MODEL})
FORM = b"multipart/form-data; boundary=xyz"


def sent(body: bytes, *, kind: str = "chat", content_type: bytes = b"application/json") -> tuple[str, str, bytes]:
    """Alias and model of a request, and what a replica gets."""
    parsed = InferenceRequest.parse(kind, body, content_type=content_type)
    request, renamed = ALIASES.resolve(parsed, body)
    assert request.size == len(renamed)
    return request.alias, request.model, renamed


def answered(*pieces: bytes, alias: str = "nick") -> bytes:
    """An answer in these pieces, as the client gets it."""
    rewriter = ALIASES.in_answer(alias)
    assert rewriter is not None
    return b"".join(rewriter.feed(piece, at == len(pieces) - 1) for at, piece in enumerate(pieces))


def test_another_model_s_request_stays_as_it_is() -> None:
    """The same objects: without an alias nothing is paid."""
    body = b'{"model": "real", "messages": []}'
    request = InferenceRequest.parse("chat", body)

    assert ALIASES.resolve(request, body) == ModelAliases({}).resolve(request, body) == (request, body)
    assert (bool(ALIASES), bool(ModelAliases({}))) == (True, False)


def test_what_is_known_of_the_request_stays() -> None:
    """Its prompt, read already or not."""
    body = b'{"model": "nick", "messages": [{"role": "user", "content": "x"}], "stream": true, "cache_salt": "s"}'
    unread, read = InferenceRequest.parse("chat", body), InferenceRequest.parse("chat", body)
    assert read.chat is not None

    for parsed in (unread, read):
        request, _ = ALIASES.resolve(parsed, body)
        assert (request.stream, request.cache_salt, request.route, request.chat) == (True, "s", "chat", read.chat)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"nick"}', b'{"model":"real"}'),
        (b' { "model" :\t"nick" , "x":1 } ', b' { "model" :\t"real" , "x":1 } '),
        (b'{"x":{"model":"nick"},"model":"nick","y":[{"model":"nick"}]}',
         b'{"x":{"model":"nick"},"model":"real","y":[{"model":"nick"}]}'),
        (b'{"model":"other","model":"nick"}', b'{"model":"other","model":"real"}'),
        (b'{"model":"nick","model":"nick"}', b'{"model":"nick","model":"real"}'),
        (b'{"m\\u006fdel":"n\\u0069ck"}', b'{"m\\u006fdel":"real"}'),
        (b'{"x":"\\"model\\":\\"nick\\"","model":"nick"}', b'{"x":"\\"model\\":\\"nick\\"","model":"real"}'),
        (b'{"x":NaN,"y":1e400,"model":"nick"}', b'{"x":NaN,"y":1e400,"model":"real"}'),
        ('{"ü":"é🦙","model":"nick","z":"ß"}'.encode(), '{"ü":"é🦙","model":"real","z":"ß"}'.encode()),
        (b'{"x":"\xed\xa0\x80","model":"nick"}', b'{"x":"\xed\xa0\x80","model":"real"}'),
        (b'\xef\xbb\xbf{"model":"nick"}', b'\xef\xbb\xbf{"model":"real"}'),
    ],
)  # fmt: skip
def test_the_value_that_counts_is_exchanged(body: bytes, expected: bytes) -> None:
    """The last ``model`` of the outermost object, however it is written; every other byte stays."""
    assert sent(body) == ("nick", "real", expected)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le", "utf-32", "utf-32-be"])
def test_every_encoding_that_the_engine_reads(encoding: str) -> None:
    """The name is written as the rest is."""
    body = json.dumps({"é": "🦙", "model": ALIAS, "x": "ß"}, ensure_ascii=False).encode(encoding)

    alias, model, renamed = sent(body)

    assert (alias, model) == (ALIAS, MODEL)
    assert json.loads(renamed) == {"é": "🦙", "model": MODEL, "x": "ß"}
    assert renamed.startswith(body[:10])


def test_big_endian_behind_a_byte_order_mark() -> None:
    """The mark says so."""
    body = b"\xfe\xff" + '{"model": "nick", "é": 1}'.encode("utf-16-be")

    assert json.loads(sent(body)[2]) == {"model": "real", "é": 1}


keys = st.sampled_from(["model", "a", "mödel", 'm"', "model\\", ""])
values = st.recursive(
    st.sampled_from(["nick", "real", '"model":"nick"', "é\ud83e", None, True, 1.5, 10**30, "}{", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=5), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_nothing_but_the_model_changes(fields: dict[str, Any], ascii_only: bool, indent: int | str | None) -> None:
    """As a JSON parser sees it, and the length by no more than the name's."""
    fields = {**fields, "model": "nick"}
    body = json.dumps(fields, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")

    _, _, renamed = sent(body, kind="embeddings")

    assert json.loads(renamed) == {**json.loads(body), "model": "real"}
    assert len(renamed) == len(body)


@pytest.mark.parametrize(
    "kind", ["completions", "responses", "messages", "embeddings", "scoring", "invocations", "control"]
)
def test_on_every_route(kind: str) -> None:
    """However the rest of the body is read."""
    assert sent(b'{"input": "x", "model": "nick"}', kind=kind) == ("nick", "real", b'{"input": "x", "model": "real"}')


def test_an_upload_s_field_is_exchanged() -> None:
    """The last of that name; the file is not looked into."""
    file = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nmodel\r\nnick\r\n'
    field = b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
    body = field % b"nick" + file + field % b"nick" + b"--xyz--\r\n"

    expected = field % b"nick" + file + field % b"real" + b"--xyz--\r\n"
    assert sent(body, kind="audio", content_type=FORM) == ("nick", "real", expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"id":"x","model":"real","choices":[]}', b'{"id":"x","model":"nick","choices":[]}'),
        (b'{"model" : "real"}', b'{"model" : "nick"}'),
        (b'data: {"model":"real"}\n\ndata: {"a":{"model": "real"}}\n\n',
         b'data: {"model":"nick"}\n\ndata: {"a":{"model": "nick"}}\n\n'),
        (b'{"x":"\\"model\\":\\"real\\""}', b'{"x":"\\"model\\":\\"real\\""}'),
        (b'{"x \\"model":"real","\\\\":"model","y":"real"}', b'{"x \\"model":"real","\\\\":"model","y":"real"}'),
        (b'{"model":"really","mode":"real","models":"real","model":["real"]}',
         b'{"model":"really","mode":"real","models":"real","model":["real"]}'),
    ],
)  # fmt: skip
def test_answers_name_the_alias(answer: bytes, expected: bytes) -> None:
    """Wherever it is a key and its value, and only there; whole, and cut into pieces anywhere."""
    assert answered(answer) == expected
    assert answered(*[answer[at : at + 1] for at in range(len(answer))]) == expected
    for at in range(len(answer)):
        assert answered(answer[:at], answer[at:]) == expected


def test_every_way_to_write_the_name() -> None:
    """As text, or as ASCII."""
    for ascii_only in (True, False):
        answer = json.dumps({"model": MODEL}, ensure_ascii=ascii_only).encode()

        assert json.loads(answered(answer[:20], answer[20:], alias=ALIAS)) == {"model": ALIAS}


@given(values, st.lists(st.integers(0, 300)), st.booleans())
def test_an_answer_is_the_same_with_other_names(value: Any, cuts: list[int], spaces: bool) -> None:
    """As a JSON parser sees it: each value of ``model`` that was the name is the alias, all else is equal."""
    answer = json.dumps({"x": value}, separators=(", ", ": ") if spaces else (",", ":")).encode()
    at = [0, *sorted(cuts), len(answer)]

    passed = answered(*[answer[start:end] for start, end in pairwise(at)])

    assert json.loads(passed) == {"x": with_alias(value)}
    assert len(passed) == len(answer)


def with_alias(value: Any) -> Any:
    """What a client should see."""
    if isinstance(value, list):
        return [with_alias(item) for item in value]
    if isinstance(value, dict):
        return {key: "nick" if (key, item) == ("model", "real") else with_alias(item) for key, item in value.items()}
    return value


def test_a_stream_s_events_do_not_wait() -> None:
    """What ends as events end goes on at once."""
    rewriter = ALIASES.in_answer("nick")

    assert rewriter is not None
    assert rewriter.feed(b'data: {"model":"real"}\n\n', last=False) == b'data: {"model":"nick"}\n\n'
    assert rewriter.feed(b'data: {"model":"re', last=False) == b"data: {"
    assert rewriter.feed(b'al"}\n\n', last=False) == b'"model":"nick"}\n\n'
    assert rewriter.feed(b'"mod', last=True) == b'"mod'


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"text/event-stream; charset=utf-8", True),
        (b"application/problem+json", True),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_only_json_is_renamed(content_type: bytes, expected: bool) -> None:
    """A transcript as text may say what it likes."""
    assert is_json(content_type) == expected


def test_a_name_with_a_brace() -> None:
    """A piece that ends with one may end in the middle of it."""
    rewriter = ModelAliases({"nick": "re}al"}).in_answer("nick")

    assert rewriter is not None
    assert rewriter.feed(b'{"model":"re}', last=False) + rewriter.feed(b'al"}', last=True) == b'{"model":"nick"}'


def test_an_alias_that_is_none_here_changes_no_answer() -> None:
    """Another gateway's, or one that was taken out of the settings since."""
    assert ALIASES.in_answer("former") is None


@pytest.mark.parametrize("kind", ["chat", "embeddings"])
def test_a_body_of_too_many_values_must_name_its_model(kind: str) -> None:
    """Looking for the name in it would hold up everybody."""
    body = b'{"model": "nick", "messages": [], "x": [%b[]]}' % (b"[]," * 600_000)
    with pytest.raises(BadRequest, match="name the model itself"):
        sent(body, kind=kind)
    real = body.replace(b"nick", b"real")
    assert sent(real, kind=kind) == ("", "real", real)
