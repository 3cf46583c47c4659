"""Cors: which web pages may ask from a browser (the Fetch standard's CORS protocol).

It only tells browsers; it keeps nobody out who is not one. A preflight carries no credentials, so it is answered before
any key is asked for, and errors carry the headers too: else a page could not read why it was refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.edge.fields import Header

_ANY = b"*"
_PREFLIGHT_AGE_S = 600
_METHODS = b"GET, POST"
_DEFAULT_HEADERS = b"authorization, content-type"


class Cors:
    """``origins`` such as ``https://chat.example.com``; ``*``: any. None: no page may."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)

    def __bool__(self) -> bool:
        return bool(self._origins)

    def headers(self, origin: bytes) -> list[Header]:
        """What every answer to a page of this origin says; nothing where it is not allowed."""
        if _ANY in self._origins:
            allowed = _ANY
        elif origin in self._origins:
            allowed = origin
        else:
            return [(b"vary", b"Origin")]
        told: list[Header] = [(b"access-control-allow-origin", allowed), (b"access-control-expose-headers", _ANY)]
        return told if allowed is _ANY else [*told, (b"vary", b"Origin")]

    def preflight(self, wanted_headers: bytes) -> list[Header]:
        """What the answer to a preflight adds. Whatever headers a page wants it may send: replicas ignore what they do
        not know.
        """
        return [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", wanted_headers or _DEFAULT_HEADERS),
            (b"access-control-max-age", b"%d" % _PREFLIGHT_AGE_S),
        ]
