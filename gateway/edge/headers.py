"""Which headers cross the proxy, each way.

Pure. What crosses keeps its order, case and bytes. RFC 9110 section 7.6.1 names what belongs to one
connection only; the rest of what is held back is the gateway's own to say.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gateway.edge.fields import Fields, Header, names_of
from gateway.fleet.origin import Origin

MAX_REQUEST_ID_CHARS = 128

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_TO_REPLICAS = _HOP_BY_HOP | {
    b"content-length",  # stated anew, exactly
    b"expect",  # answered here
    b"host",
    b"origin",  # which web pages may ask is said here
    b"x-data-parallel-rank",  # the router's to choose
    b"x-request-id",  # made anew for every attempt
}
_CREDENTIALS = frozenset({b"authorization", b"x-api-key"})
_NOT_TO_CLIENTS = _HOP_BY_HOP | {
    b"access-control-allow-credentials",
    b"access-control-allow-headers",
    b"access-control-allow-methods",
    b"access-control-allow-origin",
    b"access-control-expose-headers",
    b"access-control-max-age",
    b"x-request-id",
}
_OURS = b"x-prefixway-"
_OURS_SIZE = len(_OURS)
_UNSAFE_IN_ID = re.compile(r"[^A-Za-z0-9._:/+=@-]")


class Credentials(NamedTuple):
    """What becomes of a client's credentials on their way to a replica."""

    replica_api_key: str = ""  # replaces the client's
    held_back: frozenset[bytes] = _NOT_TO_REPLICAS  # names of headers that do not pass

    @classmethod
    def of(cls, *, replica_api_key: str, api_keys: bool) -> Credentials:
        """With keys of our own the client's header is for us, and a replica must not see it."""
        stripped = bool(replica_api_key) or api_keys
        return cls(replica_api_key, _NOT_TO_REPLICAS | _CREDENTIALS if stripped else _NOT_TO_REPLICAS)


class RequestIds:
    """Names of requests. What it makes is unique among all processes: it begins with chance and goes on counting."""

    def __init__(self) -> None:
        self._start = secrets.token_hex(8)
        self._next: Callable[[], int] = itertools.count().__next__

    def of(self, given: bytes) -> str:
        """The id that a client gave, cut to a safe alphabet and length, or a new one."""
        if not given:
            return f"{self._start}{self._next():016x}"
        safe = _UNSAFE_IN_ID.sub("", given.decode("latin-1"))[:MAX_REQUEST_ID_CHARS]
        return safe or f"{self._start}{self._next():016x}"

    def of_attempt(self, request_id: str) -> bytes:
        """What one attempt is called at its replica. An engine takes two requests of one name for one, and clients do
        send the same twice.
        """
        return f"{request_id}-{self._start[:6]}{self._next():x}".encode()


def lines_to_replica(headers: Sequence[Header], fields: Fields, *, credentials: Credentials) -> bytes:
    """The client's headers that pass, and ours that are the same for every attempt, as header lines."""
    held_back = credentials.held_back
    if b"connection" in fields:
        held_back |= _named_by_connection(headers)
    lines = [
        b"%b: %b\r\n" % header
        for name, header in zip(names_of(headers, fields), headers)
        if name not in held_back and name[:_OURS_SIZE] != _OURS
    ]
    if credentials.replica_api_key:
        lines.append(b"authorization: Bearer %b\r\n" % credentials.replica_api_key.encode())
    return b"".join(lines)


def request_head(
    method: str,
    target: bytes,
    lines: bytes,
    *,
    origin: Origin,
    request_id: bytes,
    rank: int | None,
    body_bytes: int | None,
) -> bytes:
    """A request's head for one attempt.

    ``target``: path and query as the client wrote them; ``request_id``: the attempt's; ``body_bytes``: ``None`` for a
    request without a body.
    """
    pin = b"" if rank is None else b"x-data-parallel-rank: %d\r\n" % rank
    length = b"" if body_bytes is None else b"content-length: %d\r\n" % body_bytes
    return b"%b %b%b HTTP/1.1\r\nhost: %b\r\n%bx-request-id: %b\r\n%b%b\r\n" % (
        method.encode(),
        origin.base_path.encode(),
        target,
        origin.netloc.encode(),
        lines,
        request_id,
        pin,
        length,
    )


def headers_to_client(
    headers: Sequence[Header], fields: Fields, *, receipt: Iterable[Header], request_id: str
) -> list[Header]:
    """A replica's headers that pass, then the receipt and the request's id."""
    held_back = _NOT_TO_CLIENTS
    if b"connection" in fields:
        held_back |= _named_by_connection(headers)
    passing = [
        header
        for name, header in zip(names_of(headers, fields), headers)
        if name not in held_back and name[:_OURS_SIZE] != _OURS
    ]
    passing += receipt
    passing.append((b"x-request-id", request_id.encode()))
    return passing


def _named_by_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    """What the Connection headers declare to be between these two alone."""
    values = [value for name, value in headers if name.lower() == b"connection"]
    named = {token.strip().lower() for value in values for token in value.split(b",")}
    return frozenset(named - {b"content-length"})  # what frames a message is not theirs to take away
