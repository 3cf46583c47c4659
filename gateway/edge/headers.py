"""Which headers cross the proxy, each way.

Pure. What crosses keeps its order, case and bytes. RFC 9110 section 7.6.1 names what belongs to one
connection only; the rest of what is held back is the gateway's own to say.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.fleet.origin import Origin

Header = tuple[bytes, bytes]

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
    b"x-data-parallel-rank",  # the router's to choose
    b"x-request-id",
}
_NOT_TO_CLIENTS = _HOP_BY_HOP | {b"x-request-id"}
_OURS = b"x-prefixway-"
_UNSAFE_IN_ID = re.compile(r"[^A-Za-z0-9._:/+=@-]")


class Credentials(NamedTuple):
    """What becomes of Authorization on its way to a replica."""

    replica_api_key: str = ""  # replaces the client's
    client_passes: bool = True  # without a replica key: whether the client's own goes on

    @classmethod
    def of(cls, *, replica_api_key: str, api_keys: bool) -> Credentials:
        """With keys of our own the client's header is for us, and a replica must not see it."""
        return cls(replica_api_key, client_passes=not api_keys)


def header(headers: Iterable[Header], name: bytes) -> bytes:
    """The first value of ``name`` (lower case); empty if it is absent."""
    size = len(name)
    for key, value in headers:
        if len(key) == size and key.lower() == name:
            return value
    return b""


def request_id(headers: Iterable[Header]) -> str:
    """The client's id, cut to a safe alphabet and length, or a new one."""
    given = _UNSAFE_IN_ID.sub("", header(headers, b"x-request-id").decode("latin-1"))
    return given[:MAX_REQUEST_ID_CHARS] or secrets.token_hex(16)


def lines_to_replica(headers: Sequence[Header], *, credentials: Credentials, request_id: str) -> bytes:
    """The client's headers that pass, and ours that are the same for every attempt, as header lines."""
    held_back = _with_named_by_connection(_NOT_TO_REPLICAS, headers)
    if credentials.replica_api_key or not credentials.client_passes:
        held_back |= {b"authorization"}
    lines = [b"%b: %b\r\n" % h for h in headers if (n := h[0].lower()) not in held_back and not n.startswith(_OURS)]
    if credentials.replica_api_key:
        lines.append(b"authorization: Bearer %b\r\n" % credentials.replica_api_key.encode())
    lines.append(b"x-request-id: %b\r\n" % request_id.encode())
    return b"".join(lines)


def request_head(
    method: str, target: bytes, lines: bytes, *, origin: Origin, rank: int | None, body_bytes: int | None
) -> bytes:
    """A request's head for one attempt.

    ``target``: path and query as the client wrote them; ``body_bytes``: ``None`` for a request without a body.
    """
    parts = [
        b"%b %b%b HTTP/1.1\r\nhost: %b\r\n"
        % (method.encode(), origin.base_path.encode(), target, origin.netloc.encode()),
        lines,
    ]
    if rank is not None:
        parts.append(b"x-data-parallel-rank: %d\r\n" % rank)
    parts.append(b"\r\n" if body_bytes is None else b"content-length: %d\r\n\r\n" % body_bytes)
    return b"".join(parts)


def headers_to_client(headers: Sequence[Header], *, receipt: Iterable[Header], request_id: str) -> list[Header]:
    """A replica's headers that pass, then the receipt and the request's id."""
    held_back = _with_named_by_connection(_NOT_TO_CLIENTS, headers)
    passing = [h for h in headers if (n := h[0].lower()) not in held_back and not n.startswith(_OURS)]
    passing += receipt
    passing.append((b"x-request-id", request_id.encode()))
    return passing


def _with_named_by_connection(names: frozenset[bytes], headers: Iterable[Header]) -> frozenset[bytes]:
    """``names`` and what the Connection headers declare to be between these two alone."""
    values = [v for k, v in headers if len(k) == 10 and k.lower() == b"connection" and v.lower() != b"keep-alive"]
    return names.union(token.strip().lower() for value in values for token in value.split(b",")) if values else names
