"""JsonBody: a request body as a JSON object, read the way the engine reads it. Knows JSON, not what fields
mean.

vLLM parses with Python's ``json`` and validates with pydantic in lax mode. So: NaN, a byte order mark, UTF-16
and duplicate keys (the last one wins) are fine, and ``"true"`` or ``1`` is a boolean. What pydantic would
refuse reads as absent here: the engine's own 4xx is the better answer.

Of a longer body everything is checked, but a value becomes an object only when it is asked for: 60 MB of ``[],[],..``
would be 1.4 GB of them, and seconds of a standing event loop.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

import msgspec
from msgspec import Raw

from gateway.errors import BadRequest

_NO_VALUE = Raw(b"null")
_SHORT_BYTES = 1 << 16  # decoded whole: that is faster than field by field, and takes 4 ms at the most
_LARGE_BYTES = 1 << 20
#: Of a large body. More than a context has tokens; as objects they take less than 0.1 s and 100 MB.
_MOST_VALUES = 500_000
_WINDOW = 1 << 16  # bytes looked at in one go
_OUTLINE_VALUE_BYTES = 1 << 16
# https://docs.pydantic.dev/latest/concepts/conversion_table: what a lax boolean takes, besides numbers.
_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


class _Outline(msgspec.Struct):
    """What is read of a body of very many values: what a request is routed by when its prompt is not known."""

    model: Raw = _NO_VALUE
    stream: Raw = _NO_VALUE
    stream_options: Raw = _NO_VALUE
    session_id: Raw = _NO_VALUE
    prompt_cache_key: Raw = _NO_VALUE
    user: Raw = _NO_VALUE
    metadata: Raw = _NO_VALUE
    previous_response_id: Raw = _NO_VALUE
    max_tokens: Raw = _NO_VALUE
    max_completion_tokens: Raw = _NO_VALUE
    max_output_tokens: Raw = _NO_VALUE
    store: Raw = _NO_VALUE


_WHOLE = msgspec.json.Decoder().decode
_FIELDS = msgspec.json.Decoder(dict[str, Raw]).decode
_OUTLINE = msgspec.json.Decoder(_Outline).decode


class JsonBody:
    """``fields``: the object, decoded or decoding itself as it is read. The methods read one field each, leniently."""

    __slots__ = ("fields", "is_outline", "size")

    def __init__(self, fields: Mapping[str, Any], size: int, *, is_outline: bool = False) -> None:
        self.fields = fields
        self.size = size  # bytes: no text inside can have more characters
        self.is_outline = is_outline  # its prompt and most other fields were left unread: it has too many values

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Raises :class:`BadRequest` on what is no JSON object."""
        if not body:
            raise BadRequest("The request body is empty; a JSON object is expected.")
        if len(body) > _LARGE_BYTES and _has_very_many_values(body):
            return cls(_LateFields(_outline(body)), len(body), is_outline=True)
        fields = _decode(body)
        if not isinstance(fields, (dict, _LateFields)):
            raise BadRequest("The request body must be a JSON object.")
        return cls(fields, len(body))

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def text(self, name: str) -> str:
        """The field if it is text that UTF-8 can carry, else ``""``."""
        value = self.fields.get(name)
        return value if isinstance(value, str) and is_unicode(value) else ""

    def flag(self, name: str, default: bool) -> bool:
        return read_flag(self.fields.get(name), default)

    def integer(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class _LateFields(Mapping[str, Any]):
    """Each value is decoded when it is first asked for. It was found well-formed, so what still fails, a number of
    thousands of digits, is what the engine will refuse: null.
    """

    def __init__(self, fields: dict[str, Raw]) -> None:
        self._fields: dict[str, Any] = fields

    def __getitem__(self, name: str) -> Any:
        value = self._fields[name]
        if type(value) is Raw:
            value = self._fields[name] = _decoded(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def read_flag(value: object, default: bool) -> bool:
    """``value`` as pydantic's lax mode reads a boolean; ``default`` for what it would refuse."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return bool(value) if value in (0, 1) else default
    if isinstance(value, str):
        word = value.lower()
        return True if word in _TRUE else False if word in _FALSE else default
    return default


def is_unicode(text: str) -> bool:
    """False for lone surrogates, which JSON can write (``"\\ud800"``) and no encoder takes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode(body: bytes) -> Any:
    """msgspec is several times faster; what it refuses is read again by the parser that the engine uses."""
    try:
        if len(body) <= _SHORT_BYTES:
            return _WHOLE(body)
        fields = _FIELDS(body)
        if body.isascii() or _is_utf8(body):
            return _LateFields(fields)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(body)
    except RecursionError:
        raise BadRequest("The request body is nested too deeply.") from None
    except ValueError:
        raise BadRequest("The request body is not valid JSON.") from None


def _outline(body: bytes) -> dict[str, Raw]:
    """Without the second parser: it would make objects of everything. So this one wants JSON by the book."""
    try:
        fields = msgspec.structs.asdict(_OUTLINE(body))
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest("The request body is too large to be read as anything but strict JSON.") from None
    return {name: raw for name, raw in fields.items() if memoryview(raw).nbytes <= _OUTLINE_VALUE_BYTES}


def _decoded(raw: Raw) -> Any:
    """A number may be too large for one parser, or both; and the stack is another one than when it was checked."""
    try:
        return _WHOLE(raw)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return None


def _is_utf8(body: bytes) -> bool:
    """msgspec looks at that only in values that it decodes."""
    decode, view = codecs.getincrementaldecoder("utf-8")().decode, memoryview(body)
    try:
        for start in range(0, len(body), _LARGE_BYTES):
            decode(view[start : start + _LARGE_BYTES], start + _LARGE_BYTES >= len(body))
    except UnicodeDecodeError:
        return False
    return True


def _has_very_many_values(body: bytes) -> bool:
    """By the signs that stand before values; those in texts count, too."""
    values = 0
    for start in range(0, len(body), _WINDOW):
        for sign in (b",", b"[", b"{"):
            # Finding none, as in an image, is ten times as fast as counting.
            if body.find(sign, start, start + _WINDOW) >= 0:
                values += body.count(sign, start, start + _WINDOW)
        if values > _MOST_VALUES:
            return True
    return False
