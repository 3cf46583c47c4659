"""JsonBody: a request body as a JSON object, read the way the engine reads it. Knows JSON, not what fields
mean.

vLLM parses with Python's ``json`` and validates with pydantic in lax mode. So: NaN, a byte order mark, UTF-16
and duplicate keys (the last one wins) are fine, and ``"true"`` or ``1`` is a boolean. What pydantic would
refuse reads as absent here: the engine's own 4xx is the better answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from gateway.errors import BadRequest

_DECODE = msgspec.json.Decoder().decode
# https://docs.pydantic.dev/latest/concepts/conversion_table: what a lax boolean takes, besides numbers.
_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


class JsonBody:
    """``fields`` is the decoded object; the methods read one field each, leniently."""

    __slots__ = ("fields", "size")

    def __init__(self, fields: Mapping[str, Any], size: int) -> None:
        self.fields = fields
        self.size = size  # bytes: no text inside can have more characters

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Raises :class:`BadRequest` on what is no JSON object."""
        if not body:
            raise BadRequest("The request body is empty; a JSON object is expected.")
        fields = _decode(body)
        if not isinstance(fields, dict):
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


def read_flag(value: object, default: bool) -> bool:
    """``value`` as pydantic's lax mode reads a boolean; ``default`` for what it would refuse."""
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
        return _DECODE(body)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(body)
    except RecursionError:
        raise BadRequest("The request body is nested too deeply.") from None
    except ValueError:
        raise BadRequest("The request body is not valid JSON.") from None
