"""What browsers are told."""

from __future__ import annotations

from gateway.edge.cors import Cors


def test_without_origins_there_is_nothing_to_tell() -> None:
    """The default."""
    assert not Cors([])


def test_an_allowed_origin_is_named_and_caches_are_told_that_it_matters() -> None:
    """Another origin must not get this answer from a cache."""
    cors = Cors(["https://a.example", "https://b.example/"])

    for origin in (b"https://a.example", b"https://b.example"):
        headers = dict(cors.headers(origin))
        assert headers[b"access-control-allow-origin"] == origin
        assert headers[b"vary"] == b"Origin"


def test_a_strange_origin_is_allowed_nothing() -> None:
    """Neither a longer name nor another scheme."""
    cors = Cors(["https://a.example"])

    for origin in (b"https://a.example.evil", b"http://a.example", b"null", b""):
        assert cors.headers(origin) == [(b"vary", b"Origin")]


def test_any_origin() -> None:
    """A star is said as a star: no credentials of a browser are ever asked for."""
    assert dict(Cors(["*"]).headers(b"https://x"))[b"access-control-allow-origin"] == b"*"


def test_a_preflight_allows_what_is_asked_for() -> None:
    """The methods that there are; headers as the page wants them."""
    cors = Cors(["*"])

    assert dict(cors.preflight(b"authorization, x-session-id")) == {
        b"access-control-allow-methods": b"GET, POST",
        b"access-control-allow-headers": b"authorization, x-session-id",
        b"access-control-max-age": b"600",
    }
    assert dict(cors.preflight(b""))[b"access-control-allow-headers"] == b"authorization, content-type"
