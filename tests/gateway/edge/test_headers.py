from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.headers import (
    MAX_REQUEST_ID_CHARS,
    Credentials,
    header,
    headers_to_client,
    lines_to_replica,
    request_head,
    request_id,
)
from gateway.fleet.origin import Origin

OPEN = Credentials()


def to_replica(*headers: tuple[bytes, bytes], credentials: Credentials = OPEN) -> list[bytes]:
    return lines_to_replica(headers, credentials=credentials, request_id="r1").split(b"\r\n")[:-1]


def test_end_to_end_headers_keep_order_case_and_bytes() -> None:
    """What crosses arrives as the client wrote it, repeated names included."""
    headers = [(b"X-B", b"1"), (b"x-a", b"\xff  two"), (b"X-B", b"3"), (b"Accept-Encoding", b"gzip")]
    assert to_replica(*headers)[:-1] == [b"%b: %b" % h for h in headers]


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
        b"Proxy-Authorization",
        b"Proxy-Connection",
        b"HTTP2-Settings",
        b"Host",
        b"Content-Length",
        b"Expect",
        b"X-Data-Parallel-Rank",
        b"x-prefixway-replica",
        b"X-Prefixway-Anything",
    ],
)
def test_what_belongs_to_the_connection_or_to_us_stays_here(name: bytes) -> None:
    """Hop-by-hop headers and the gateway's own never reach a replica."""
    assert to_replica((name, b"v")) == [b"x-request-id: r1"]


def test_headers_that_connection_names_stay_here() -> None:
    """Connection may declare any header to be for this hop alone."""
    headers = [(b"Connection", b"x-secret, Keep-Alive"), (b"X-Secret", b"1"), (b"x-open", b"2")]
    assert to_replica(*headers) == [b"x-open: 2", b"x-request-id: r1"]


@pytest.mark.parametrize(
    ("credentials", "sent"),
    [
        (Credentials.of(replica_api_key="", api_keys=False), [b"Bearer client"]),
        (Credentials.of(replica_api_key="", api_keys=True), []),
        (Credentials.of(replica_api_key="ours", api_keys=False), [b"Bearer ours"]),
        (Credentials.of(replica_api_key="ours", api_keys=True), [b"Bearer ours"]),
    ],
)
def test_authorization_follows_the_keys_configured(credentials: Credentials, sent: list[bytes]) -> None:
    """A replica key replaces the client's; keys of our own strip it; with neither it passes."""
    lines = to_replica((b"Authorization", b"Bearer client"), credentials=credentials)
    assert [line.split(b": ")[1] for line in lines if line.lower().startswith(b"authorization")] == sent


def test_request_head_names_the_origin_and_the_rank() -> None:
    """Host is the replica's authority, its base path comes first, and a pinned rank is stated."""
    origin = Origin(False, "::1", 8000, "/base")
    head = request_head("POST", b"/v1/x?a=1", b"a: b\r\n", origin=origin, rank=3, body_bytes=7)
    assert head == (
        b"POST /base/v1/x?a=1 HTTP/1.1\r\nhost: [::1]:8000\r\na: b\r\n"
        b"x-data-parallel-rank: 3\r\ncontent-length: 7\r\n\r\n"
    )


def test_a_request_without_a_body_states_no_length() -> None:
    """A GET passes as a GET."""
    head = request_head("GET", b"/v1/x", b"", origin=Origin(False, "h", 1), rank=None, body_bytes=None)
    assert head == b"GET /v1/x HTTP/1.1\r\nhost: h:1\r\n\r\n"


def test_answers_keep_their_headers_and_get_the_receipt() -> None:
    """The replica's end-to-end headers come first, as they were; then the receipt and one request id."""
    headers = [
        (b"Date", b"d"),
        (b"Server", b"uvicorn"),
        (b"X-Request-Id", b"theirs"),
        (b"connection", b"x-hop"),
        (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"Content-Length", b"3"),
        (b"x-prefixway-replica", b"forged"),
    ]
    assert headers_to_client(headers, receipt=[(b"x-prefixway-replica", b"a")], request_id="r1") == [
        (b"Date", b"d"),
        (b"Server", b"uvicorn"),
        (b"Content-Length", b"3"),
        (b"x-prefixway-replica", b"a"),
        (b"x-request-id", b"r1"),
    ]


def test_the_clients_request_id_is_kept() -> None:
    """An id in the safe alphabet comes through unchanged."""
    assert request_id([(b"X-Request-ID", b"my-req_1.2:3")]) == "my-req_1.2:3"


def test_a_request_without_an_id_gets_one_of_its_own() -> None:
    """Two requests without ids get two ids."""
    assert request_id([]) != request_id([(b"x-request-id", b"\x1b\r\n")])


@given(st.binary(max_size=400))
def test_request_ids_are_always_safe(value: bytes) -> None:
    """Whatever is sent, the id is short, printable and not empty."""
    made = request_id([(b"x-request-id", value)])
    assert 0 < len(made) <= MAX_REQUEST_ID_CHARS
    assert made.isascii()
    assert made.isprintable()
    assert " " not in made


def test_header_finds_the_first_value_in_any_case() -> None:
    """Names are compared without case; an absent one is empty."""
    headers = [(b"A", b"1"), (b"a", b"2")]
    assert (header(headers, b"a"), header(headers, b"b")) == (b"1", b"")
