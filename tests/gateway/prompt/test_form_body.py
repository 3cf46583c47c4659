"""Multipart bodies, read as the engine reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from gateway.errors import BadRequest
from gateway.prompt.form_body import FormBody

TYPE = b"multipart/form-data; boundary=xyz"


def part(name: str, value: bytes, *, file: str | None = None) -> bytes:
    """One part, without the boundary before it."""
    filename = "" if file is None else f'; filename="{file}"'
    return f'Content-Disposition: form-data; name="{name}"{filename}\r\n\r\n'.encode() + value + b"\r\n"


def form(*parts: bytes, boundary: bytes = b"xyz") -> bytes:
    """A whole body."""
    return b"".join(b"--%b\r\n%b" % (boundary, each) for each in parts) + b"--%b--\r\n" % boundary


def test_fields_and_files() -> None:
    """Texts with their place, files by their name alone."""
    body = form(part("file", b"RIFF\r\n--xy\r\n", file="a.wav"), part("model", b"m"), part("empty", b""))
    read = FormBody.parse(body, TYPE)

    assert (read.text("model"), read.text("empty"), read.text("file"), read.text("absent")) == ("m", "", "", "")
    assert (read.has_file("file"), read.has_file("model"), read.size) == (True, False, len(body))
    assert read.span("model") == (body.index(b"\r\nm\r\n") + 2, body.index(b"\r\nm\r\n") + 3)
    assert read.span("absent") is read.span("file") is None


def test_the_last_of_a_name_counts() -> None:
    """Whether text or file."""
    texts = FormBody.parse(form(part("model", b"a"), part("model", b"bc")), TYPE)
    file = FormBody.parse(form(part("model", b"a"), part("model", b"b", file="f")), TYPE)

    assert (texts.text("model"), file.text("model"), file.has_file("model")) == ("bc", "", True)


@pytest.mark.parametrize(
    "content_type",
    [
        b'multipart/form-data; boundary="xyz"',
        b"Multipart/Form-Data;BOUNDARY=xyz",
        b"multipart/form-data; charset=utf-8; boundary=xyz",
    ],
)
def test_forms_of_the_header(content_type: bytes) -> None:
    """Quoted, in capitals, with other parameters."""
    assert FormBody.parse(form(part("model", b"m")), content_type).text("model") == "m"


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "us-ascii", "ISO-8859-1", "latin-1"])
def test_charsets(charset: str) -> None:
    """The header may name one; bytes that are none of its are characters of Latin-1."""
    content_type = TYPE + b"; charset=" + charset.encode()
    read = FormBody.parse(form(part("modèle".encode().decode(), "é".encode())), content_type)

    expected = ("modèle", "é") if charset.lower().startswith("utf") else ("modÃ¨le", "Ã©")
    assert read.text(expected[0]) == expected[1]


@pytest.mark.parametrize(
    "charset",
    ["punycode", "idna", "utf-7", "unicode_escape", "utf-16", "hex", "nonsense", "a\0b", "undefined", "x" * 9_999],
)
def test_other_charsets_are_refused(charset: str) -> None:
    """Also those that Python has a codec for: which of them runs is not the client's to say."""
    with pytest.raises(BadRequest):
        FormBody.parse(form(part("model", b"m")), TYPE + b"; charset=" + charset.encode())


@given(st.binary(max_size=40), st.sampled_from([b"utf-8", b"ascii", b"latin-1"]))
def test_every_text_is_unicode(value: bytes, charset: bytes) -> None:
    """No lone surrogates, whatever was sent: a model's name goes into logs, and to Redis."""
    body = form(part("model", value.replace(b"\r", b"").replace(b"\n", b"")))
    read = FormBody.parse(body, TYPE + b"; charset=" + charset)

    assert read.text("model").encode().decode() == read.text("model")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--xyz",
        form(part("model", b"m"))[:-4],
        form(part("model", b"m"), boundary=b"zyx"),
        b"preamble\r\n" + form(part("model", b"m")),
        form(b"Content-Disposition: form-data\r\n\r\nm\r\n"),
        form(b"No: disposition\r\n\r\nm\r\n"),
        form(b"bad header\r\n\r\nm\r\n"),
        form(*[part("f", b"x")] * 1_001),
        form(part("x" * 20_000, b"m")),
    ],
    ids="empty begun truncated other preamble nameless undisposed header many long".split(),
)
def test_what_is_no_whole_form_is_refused(body: bytes) -> None:
    """400, with no word of the body."""
    with pytest.raises(BadRequest):
        FormBody.parse(body, TYPE)


@pytest.mark.parametrize("content_type", [b"", b"application/json", b"multipart/form-data", TYPE[:-3], b"\xff;=\0;"])
def test_a_header_that_names_no_boundary_is_refused(content_type: bytes) -> None:
    """So is another type of body."""
    with pytest.raises(BadRequest):
        FormBody.parse(form(part("model", b"m")), content_type)


PARTS = [part("model", b"m"), part("file", b"RIFF", file="a"), part("model", b"", file=""), b"Content-Type: x\r\n"]
NOISE = b'--xyz|--xyz--|\r\n|\r|\n|-| |m|model|"|;|=|:|\xff|\0'.split(b"|")
pieces = st.sampled_from([*NOISE, *PARTS])


@given(st.lists(pieces, max_size=12).map(b"".join), st.booleans())
async def test_it_reads_what_the_engine_s_framework_reads(noise: bytes, whole: bool) -> None:
    """Never another field, never a text that is not there; and no other error than a 400."""
    body = form(part("model", b"m"), part("x", noise)) if whole else b"--xyz\r\n" + noise
    try:
        read = FormBody.parse(body, TYPE)
    except BadRequest:
        return
    theirs = await framework_reads(body)

    assert theirs is not None
    for name, value in theirs.items():  # the last of each name
        if isinstance(value, UploadFile):
            assert read.has_file(name)
        else:
            assert read.text(name) == value
    await theirs.close()


async def framework_reads(body: bytes) -> FormData | None:
    """The form as Starlette has it; ``None``: it refuses."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        return await MultiPartParser(Headers({"content-type": TYPE.decode()}), stream()).parse()
    except MultiPartException:
        return None
