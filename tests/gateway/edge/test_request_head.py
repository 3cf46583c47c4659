"""What llhttp lets through and may not pass, as tables."""

from __future__ import annotations

import pytest

from gateway.edge.fields import Header, fields_of
from gateway.edge.request_head import (
    MAX_HEAD_BYTES,
    MAX_HEADER_LINES,
    check_meaning,
    check_size,
    origin_form,
)
from gateway.errors import BadRequest, HeadersTooLarge

HOST = (b"Host", b"gateway:8080")


def check(version: str, *headers: Header) -> None:
    check_meaning(version, headers, fields_of(headers))


@pytest.mark.parametrize("host", [b"a", b"10.0.0.1:80", b"[::1]:8080", b"a-b.c_d", b"%61", b"gateway."])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_one_host(version: str, host: bytes) -> None:
    """A name or an address, with or without a port."""
    check(version, (b"HOST", host), (b"cookie", b"a"), (b"cookie", b"b"))


@pytest.mark.parametrize(
    "host", [b"", b"a b", b"a,b", b"a/b", b"u@a", b"a\\b", b"a?b", b"a#b", b"\xe4", b"a\tb", b"<a>"]
)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_no_host(version: str, host: bytes) -> None:
    """Something that a server behind might read as another one."""
    with pytest.raises(BadRequest, match="names no host"):
        check(version, (b"host", host))


def test_old_clients_need_no_host() -> None:
    """HTTP/1.0 did not know it."""
    check("1.0")
    with pytest.raises(BadRequest, match="exactly one Host"):
        check("1.1", (b"accept", b"*/*"))


@pytest.mark.parametrize("name", [b"host", b"Content-Length", b"TRANSFER-ENCODING"])
def test_what_says_where_a_request_ends_is_said_once(name: bytes) -> None:
    """Also when both say the same: the next server may take either."""
    with pytest.raises(BadRequest, match="no two"):
        check("1.1", HOST, (name, b"1"), (name.lower(), b"1"))


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked", b"chunked  "])
def test_chunks(coding: bytes) -> None:
    """The one coding that everybody reads alike."""
    check("1.1", HOST, (b"transfer-encoding", coding))
    with pytest.raises(BadRequest, match="transfer coding"):
        check("1.0", HOST, (b"transfer-encoding", coding))


@pytest.mark.parametrize("coding", [b"", b"identity", b"gzip, chunked", b", chunked", b"chunked,", b"x;chunked"])
def test_no_other_coding(coding: bytes) -> None:
    """Legal or not."""
    with pytest.raises(BadRequest, match="transfer coding"):
        check("1.1", HOST, (b"transfer-encoding", coding))


@pytest.mark.parametrize("version", ["0.9", "2.0", "3.0"])
def test_no_other_version(version: str) -> None:
    """HTTP/1 only."""
    with pytest.raises(BadRequest, match=r"HTTP/1\.1"):
        check(version, HOST)


@pytest.mark.parametrize(
    ("method", "target", "path"),
    [
        ("POST", b"/v1/x?y=/z", b"/v1/x?y=/z"),
        ("GET", b"//v1", b"//v1"),
        ("GET", b"http://a/x?y#", None),
        ("GET", b"http://a/x?y", b"/x?y"),
        ("GET", b"HTTPS://a:80?y=/z", b"/?y=/z"),
        ("GET", b"http://a", b"/"),
        ("OPTIONS", b"http://a", b"/"),
        ("OPTIONS", b"*", b"*"),
        ("GET", b"*", None),
        ("GET", b"http:///x", None),
        ("GET", b"http://?x", None),
        ("GET", b"http://user@a/x", None),
        ("GET", b"ftp://a/x", None),
        ("GET", b"x://http://a/x", None),
        ("GET", b"a:80", None),
        ("GET", b"/a#b", None),
        ("CONNECT", b"a:80", None),
        ("CONNECT", b"http://a", None),
    ],
)
def test_what_a_request_is_for(method: str, target: bytes, path: bytes | None) -> None:
    """Path and query, also of an absolute target; nothing else."""
    if path is None:
        with pytest.raises(BadRequest):
            origin_form(method, target)
    else:
        assert origin_form(method, target) == path


def test_size() -> None:
    """Bytes and lines, each to the last that is allowed."""
    check_size(b"/", [(b"a", b"")] * MAX_HEADER_LINES)
    check_size(b"/", [(b"a", b"x" * (MAX_HEAD_BYTES - 6))])
    with pytest.raises(HeadersTooLarge):
        check_size(b"/", [(b"a", b"")] * (MAX_HEADER_LINES + 1))
    with pytest.raises(HeadersTooLarge):
        check_size(b"/", [(b"a", b"x" * (MAX_HEAD_BYTES - 5))])
