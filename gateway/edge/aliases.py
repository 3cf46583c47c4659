"""Aliases: further names of models. A client sees the alias, a replica the model's own name, the router too.

Only the name is exchanged, its bytes for other bytes: everything before and after it stays as it was written. That
changes the length of a body, so whoever sends one states its length anew, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from gateway.edge.json_span import span_of
from gateway.errors import BadRequest
from gateway.prompt.form_body import FormBody
from gateway.prompt.inference_request import InferenceRequest

_WHOLE = (b"}\n\n", b"}\r\n\r\n", b"}")  # how most pieces of an answer end
#: How a decoder by this name (of ``json.detect_encoding``) writes what stands behind the byte order mark.
_PLAIN = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class ModelAliases:
    """``models``: what each alias stands for. One that is also a model's own name stands for the other model."""

    def __init__(self, models: Mapping[str, str]) -> None:
        self._models = dict(models)
        self._names = {alias: _Names(model, alias) for alias, model in models.items()}

    def __bool__(self) -> bool:
        return bool(self._models)

    def resolve(self, request: InferenceRequest, body: bytes) -> tuple[InferenceRequest, bytes]:
        """The request as it is routed, and its body as a replica gets it: as they are unless it names an alias.

        Raises ``BadRequest`` where finding the name would take the event loop seconds.
        """
        model = self._models.get(request.model)
        if model is None:
            return request, body
        if request.is_outline:
            raise BadRequest("The body has too many values for a model's alias; name the model itself.", param="model")
        renamed = _json_with(body, model) if request.form is None else _form_with(request.form, body, model)
        return replace(request, model=model, alias=request.model, size=len(renamed)), renamed

    def in_answer(self, alias: str) -> AliasInAnswer | None:
        """For one answer: puts ``alias`` in the place of its model's name. ``None``: it is no alias (any more)."""
        names = self._names.get(alias)
        return None if names is None else AliasInAnswer(names)


class AliasInAnswer:
    """Renames a model in one passing answer, JSON or events of JSON, however it is cut into pieces.

    ``"model": "name"`` is renamed wherever it stands as a key and its value; inside a JSON string, such as the model's
    own words, its quotes would be escaped. Bytes that may be the beginning of it wait for the next ones.
    """

    __slots__ = ("_held", "_names")

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._held = b""

    def feed(self, data: bytes, last: bool) -> bytes:
        """What can go on by now; all of it if these are the ``last`` bytes."""
        if self._held:
            data = self._held + data
        if not last:
            end = self._names.begins(data)
            self._held, data = data[end:], data[:end]
        return self._names.renamed(data)


def is_json(content_type: bytes) -> bool:
    """Whether an answer of this type names its model in JSON."""
    essence = content_type.split(b";", 1)[0].strip().lower()
    return essence in (b"application/json", b"text/event-stream") or essence.endswith(b"+json")


class _Names:
    """One alias: what to look for in answers, in every way that JSON is written there."""

    # A backslash may escape the quote that comes next, so it waits for it.
    _BEGUN = re.compile(
        rb'\\\Z|(?<!\\)"(?:m|mo|mod|mode|model|model"[ \t\r\n]{0,9}(?::[ \t\r\n]{0,9}("(?:[^"\\]|\\.)*[\\"]?)?)?)?\Z',
        re.DOTALL,
    )

    def __init__(self, model: str, alias: str) -> None:
        self._written = {_as_json(model), json.dumps(model).encode()}  # as text, and as ASCII
        choices = b"|".join(map(re.escape, sorted(self._written)))
        self._pattern = re.compile(rb'(?<!\\)("model"[ \t\r\n]{0,9}:[ \t\r\n]{0,9})(?:%b)' % choices)
        self._window = max(map(len, self._written)) + len('"model":') + 2 * 9
        self._is_without_brace = not any(b"}" in name for name in self._written)
        self._alias = _as_json(alias)

    def renamed(self, data: bytes) -> bytes:
        return self._pattern.sub(self._with_alias, data) if b'"model"' in data else data

    def begins(self, data: bytes) -> int:
        """Where at the end of ``data`` something begins that may become the name; its length if nothing does."""
        if self._is_without_brace and data.endswith(_WHOLE):
            return len(data)
        begun = self._BEGUN.search(data, max(0, len(data) - self._window))
        if begun is None:
            return len(data)
        value = begun[1]
        is_open = value is None or any(name.startswith(value) and name != value for name in self._written)
        return begun.start() if is_open else len(data)

    def _with_alias(self, found: re.Match[bytes]) -> bytes:
        return found[1] + self._alias


def _as_json(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _form_with(form: FormBody, body: bytes, model: str) -> bytes:
    start, end = form.span("model") or (0, 0)
    return b"%b%b%b" % (body[:start], form.encoded(model), body[end:]) if end else body


def _json_with(body: bytes, model: str) -> bytes:
    """The value of the last ``model`` of the outermost object exchanged: the engine takes the last one, too."""
    encoding = json.detect_encoding(body)
    text = body.decode(encoding, "surrogatepass")
    start, end = span_of(text, "model")
    if not end:
        return body
    if body.isascii():
        return b"%b%b%b" % (body[:start], json.dumps(model).encode(), body[end:])
    before, after = (len(text[:at].encode(encoding, "surrogatepass")) for at in (start, end))
    plain = _PLAIN.get(encoding, encoding)
    if encoding in ("utf-16", "utf-32") and body[0] in b"\xfe\0":
        plain = plain.replace("le", "be")
    return b"%b%b%b" % (body[:before], json.dumps(model).encode(plain), body[after:])
