"""FormBody: a multipart/form-data body as its fields, read the way the engine reads it. No byte of it is copied.

vLLM's web framework parses with ``python-multipart``, and so does this: what one takes for a field the other does
too. Of each field only its place is kept, so that an upload costs a search for its boundaries.
"""

from __future__ import annotations

from typing import Self

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import BadRequest

_MAX_PARTS = 1_000  # the engine's framework refuses more, too
_FORM = b"multipart/form-data"
_CHARSETS = {
    b"utf-8": "utf-8",
    b"utf8": "utf-8",
    b"us-ascii": "ascii",
    b"ascii": "ascii",
    b"iso-8859-1": "latin-1",
    b"latin-1": "latin-1",
    b"latin1": "latin-1",
}


class FormBody:
    """``size``: bytes of the body. Of fields with the same name the last one counts, as in the engine."""

    __slots__ = ("_body", "_charset", "_files", "_texts", "size")

    def __init__(self, body: bytes, charset: str, parts: _Parts) -> None:
        self.size = len(body)
        self._body = body
        self._charset = charset
        self._texts = {_decoded(name, charset): span for name, span in parts.texts.items()}
        self._files = {_decoded(name, charset) for name in parts.files}

    @classmethod
    def parse(cls, body: bytes, content_type: bytes) -> Self:
        """``content_type``: the header's value, which names the boundary.

        Raises :class:`BadRequest` on what is no multipart form, or is not whole.
        """
        form, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if form != _FORM or not boundary:
            raise BadRequest("The Content-Type must be multipart/form-data, with a boundary.")
        parts = _Parts()
        try:
            MultipartParser(boundary, parts.callbacks()).write(body)  # type: ignore[arg-type] # ours ignore the data
        except FormParserError:
            raise BadRequest("The request body is not valid multipart/form-data.") from None
        if not parts.is_whole:
            raise BadRequest("The multipart body ends before its last boundary.")
        return cls(body, _charset(options.get(b"charset", b"utf-8")), parts)

    def span(self, name: str) -> tuple[int, int] | None:
        """Where in the body the value of a text field begins and ends; ``None``: there is none of that name."""
        return self._texts.get(name)

    def text(self, name: str) -> str:
        """The value of a text field, which UTF-8 can carry; "" where it is absent."""
        start, end = self._texts.get(name, (0, 0))
        return _decoded(self._body[start:end], self._charset)

    def encoded(self, text: str) -> bytes:
        """``text`` as this form writes it; question marks where its charset cannot."""
        return text.encode(self._charset, "replace")

    def has_file(self, name: str) -> bool:
        """Whether a file was uploaded under that name."""
        return name in self._files


class _Parts:
    """What the parser found, told by its calls: it hands over the whole body with where a piece of it lies."""

    def __init__(self) -> None:
        self.texts: dict[bytes, tuple[int, int]] = {}
        self.files: set[bytes] = set()
        self.is_whole = False
        self._count = 0
        self._header = self._value = self._disposition = b""
        self._start = self._end = 0

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._part_began,
            "on_header_field": self._header_named,
            "on_header_value": self._header_valued,
            "on_header_end": self._header_ended,
            "on_part_data": self._data_came,
            "on_part_end": self._part_ended,
            "on_end": self._ended,
        }

    def _part_began(self) -> None:
        self._count += 1
        if self._count > _MAX_PARTS:
            raise BadRequest(f"The multipart body has more than {_MAX_PARTS} parts.")
        self._header = self._value = self._disposition = b""
        self._start = self._end = 0

    def _header_named(self, body: bytes, start: int, end: int) -> None:
        self._header = body[start:end]

    def _header_valued(self, body: bytes, start: int, end: int) -> None:
        self._value = body[start:end]

    def _header_ended(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._value = b""

    def _data_came(self, _body: bytes, start: int, end: int) -> None:
        self._start = self._start or start
        self._end = end

    def _part_ended(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name")
        if name is None:
            raise BadRequest("A part of the multipart body has no name.")
        if b"filename" in options:
            self.files.add(name)
            self.texts.pop(name, None)
        else:
            self.files.discard(name)
            self.texts[name] = self._start, self._end

    def _ended(self) -> None:
        self.is_whole = True


def _charset(name: bytes) -> str:
    """Python's name of it. The engine's framework takes every codec that Python has. Some of them take quadratic time,
    or know no text but surrogates; and to look one up is to import a module that the client names.
    """
    charset = _CHARSETS.get(name.lower())
    if charset is None:
        raise BadRequest("The charset of a multipart body must be utf-8, us-ascii or iso-8859-1.")
    return charset


def _decoded(value: bytes, charset: str) -> str:
    try:
        return value.decode(charset)
    except UnicodeDecodeError:
        return value.decode("latin-1")
