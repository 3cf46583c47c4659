from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.fields import fields_of
from gateway.edge.headers import (
    MAX_REQUEST_ID_CHARS,
    Credentials,
    RequestIds,
    headers_to_client,
    lines_to_replica,
    request_head,
)
from gateway.fleet.origin import Origin

OPEN = Credentials()


def to_replica(*headers: tuple[bytes, bytes], credentials: Credentials = OPEN) -> list[bytes]:
    return lines_to_replica(headers, fields_of(headers), credentials=credentials).split(b"\r\n")[:-1]


def test_end_to_end_headers_keep_order_case_and_bytes() -> None:
    """What crosses arrives as the client wrote it, repeated names included."""
    headers = [(b"X-B", b"1"), (b"x-a", b"\xff  two"), (b"X-B", b"3"), (b"Accept-Encoding", b"gzip")]
    assert to_replica(*headers) == [b"%b: %b" % h for h in headers]


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
        b"X-Request-Id",
        b"Origin",
        b"x-prefixway-replica",
        b"X-Prefixway-Anything",
    ],
)
def test_what_belongs_to_the_connection_or_to_us_stays_here(name: bytes) -> None:
    """Hop-by-hop headers and the gateway's own never reach a replica."""
    assert to_replica((name, b"v")) == []


def test_headers_that_connection_names_stay_here() -> None:
    """Connection may declare any header to be for this hop alone."""
    headers = [(b"Connection", b"x-secret, Keep-Alive"), (b"X-Secret", b"1"), (b"x-open", b"2")]
    assert to_replica(*headers) == [b"x-open: 2"]


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


@pytest.mark.parametrize(
    ("credentials", "sent"),
    [
        (Credentials.of(replica_api_key="", api_keys=False), [b"x-api-key: client"]),
        (Credentials.of(replica_api_key="", api_keys=True), []),
        (Credentials.of(replica_api_key="ours", api_keys=True), [b"authorization: Bearer ours"]),
    ],
)
def test_the_other_header_for_keys_follows_them_too(credentials: Credentials, sent: list[bytes]) -> None:
    """Anthropic's clients send their key in x-api-key."""
    assert to_replica((b"x-api-key", b"client"), credentials=credentials) == sent


def test_request_head_names_the_origin_and_the_rank() -> None:
    """Host is the replica's authority, its base path comes first, and a pinned rank is stated."""
    origin = Origin(False, "::1", 8000, "/base")
    head = request_head("POST", b"/v1/x?a=1", b"a: b\r\n", origin=origin, request_id=b"r1", rank=3, body_bytes=7)
    assert head == (
        b"POST /base/v1/x?a=1 HTTP/1.1\r\nhost: [::1]:8000\r\na: b\r\nx-request-id: r1\r\n"
        b"x-data-parallel-rank: 3\r\ncontent-length: 7\r\n\r\n"
    )


def test_a_request_without_a_body_states_no_length() -> None:
    """A GET passes as a GET."""
    origin = Origin(False, "h", 1)
    head = request_head("GET", b"/v1/x", b"", origin=origin, request_id=b"r1", rank=None, body_bytes=None)
    assert head == b"GET /v1/x HTTP/1.1\r\nhost: h:1\r\nx-request-id: r1\r\n\r\n"


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
    assert headers_to_client(
        headers, fields_of(headers), receipt=[(b"x-prefixway-replica", b"a")], request_id="r1"
    ) == [
        (b"Date", b"d"),
        (b"Server", b"uvicorn"),
        (b"Content-Length", b"3"),
        (b"x-prefixway-replica", b"a"),
        (b"x-request-id", b"r1"),
    ]


def test_the_clients_request_id_is_kept() -> None:
    """An id in the safe alphabet comes through unchanged."""
    assert RequestIds().of(b"my-req_1.2:3") == "my-req_1.2:3"


def test_a_request_without_an_id_gets_one_of_its_own() -> None:
    """Two requests without ids get two ids."""
    ids, others = RequestIds(), RequestIds()
    made = {ids.of(b""), ids.of(b"\x1b\r\n"), others.of(b""), others.of(b"")}
    assert len(made) == 4


def test_every_attempt_has_a_name_of_its_own() -> None:
    """Also where clients send one id twice, through two gateways: an engine would take both for one request."""
    ids, others = RequestIds(), RequestIds()
    names = {each.of_attempt("r1") for each in (ids, ids, others, others)}
    assert len(names) == 4
    assert all(name.startswith(b"r1-") for name in names)


@given(st.binary(max_size=400))
def test_request_ids_are_always_safe(value: bytes) -> None:
    """Whatever is sent, the id is short, printable and not empty."""
    made = RequestIds().of(value)
    assert 0 < len(made) <= MAX_REQUEST_ID_CHARS
    assert made.isascii()
    assert made.isprintable()
    assert " " not in made


def test_what_a_replica_says_of_web_pages_does_not_pass() -> None:
    """Who may ask is the gateway's to say: a second word would make a browser refuse both, or open what is closed."""
    headers = [(b"Access-Control-Allow-Origin", b"*"), (b"access-control-allow-credentials", b"true"), (b"a", b"b")]
    passing = headers_to_client(headers, fields_of(headers), receipt=[], request_id="r1")
    assert passing == [(b"a", b"b"), (b"x-request-id", b"r1")]


def test_nobody_takes_a_messages_length_away() -> None:
    """A Connection header that names it is a mistake, or worse."""
    headers = [(b"Connection", b"content-length, x-a"), (b"Content-Length", b"3"), (b"x-a", b"1")]
    passing = headers_to_client(headers, fields_of(headers), receipt=[], request_id="r1")
    assert passing == [(b"Content-Length", b"3"), (b"x-request-id", b"r1")]
