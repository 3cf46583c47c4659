"""What a request's head must be, beyond what the parser sees to.

Pure. llhttp refuses by itself what is malformed: bare LF, obs-fold, space before a colon, control characters, two
lengths, a length with chunks, unknown methods. It lets through what is refused here (RFC 9110 and 9112, as cited).
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.edge.fields import Header
from gateway.errors import BadRequest, HeadersTooLarge

MAX_HEAD_BYTES = 65_536
MAX_HEADER_LINES = 256

_ONCE = (b"host", b"content-length", b"transfer-encoding")
_SLASH = 0x2F
#: RFC 3986 section 3.2, without the user: no space, no comma, nothing that would be a path
_HOST_CHARACTERS = b"!$%&'()*+-.0123456789:;=ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz~"


def check_size(target: bytes, headers: Sequence[Header]) -> None:
    """Raises ``HeadersTooLarge``."""
    if len(headers) > MAX_HEADER_LINES:
        raise HeadersTooLarge(f"The request has more than {MAX_HEADER_LINES} header lines.")
    if len(target) + sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEAD_BYTES:
        raise too_large()


def too_large() -> HeadersTooLarge:
    """What a head of too many bytes is refused with."""
    return HeadersTooLarge(f"The request's head is larger than {MAX_HEAD_BYTES} bytes.")


def check_meaning(version: str, headers: Sequence[Header], fields: dict[bytes, bytes]) -> None:
    """Raises ``BadRequest`` where it is unclear whom the request is for, or where its body ends."""
    if version not in ("1.1", "1.0"):
        raise BadRequest("This port speaks HTTP/1.1.")  # the parser reads 0.9 and 2.0 as if they were
    if len(fields) != len(headers):
        _check_repeated(headers)
    host = fields.get(b"host")
    if host is None:
        if version != "1.0":
            raise BadRequest("A request needs exactly one Host header.")  # RFC 9112 section 3.2
    elif not host or host.translate(None, _HOST_CHARACTERS):
        raise BadRequest("The Host header names no host.")
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.strip().lower() != b"chunked"):
        # RFC 9112 section 6.1. Other codings are legal, but nobody sends them, and no two servers read them alike.
        raise BadRequest("The only transfer coding that is read is chunked, in HTTP/1.1.")


def origin_form(method: str, target: bytes) -> bytes:
    """The path and query of a request's target (RFC 9112 section 3.2). Raises ``BadRequest`` if there are none."""
    if target[0] == _SLASH and b"#" not in target:
        return target
    if method == "CONNECT":
        raise BadRequest("This is no proxy for other servers.")
    if method == "OPTIONS" and target == b"*":
        return target
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https") or b"#" in target:
        raise BadRequest("The request's target is not a path.")
    return _path_of(rest)


def _path_of(rest: bytes) -> bytes:
    """Of an absolute target, which a server must accept; the host in it counts as little as the Host header."""
    authority_ends = min(at for at in (rest.find(b"/"), rest.find(b"?"), len(rest)) if at >= 0)
    authority, path = rest[:authority_ends], rest[authority_ends:]
    if not authority or authority.translate(None, _HOST_CHARACTERS):
        raise BadRequest("The request's target names no host.")
    return path if path.startswith(b"/") else b"/" + path


def _check_repeated(headers: Sequence[Header]) -> None:
    names = [name.lower() for name, _ in headers]
    for name in _ONCE:
        if names.count(name) > 1:
            raise BadRequest(f"A request has no two {name.decode().title()} headers.")
