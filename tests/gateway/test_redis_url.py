"""A Redis URL is read whole, and what is wrong with one is said without showing a password."""

from __future__ import annotations

import pytest

from gateway.redis_url import Host, RedisTarget, TlsOptions


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://localhost", {"form": "plain", "hosts": (Host("localhost", 6379),), "db": 0, "tls": None}),
        ("redis://h:7000/3", {"hosts": (Host("h", 7000),), "db": 3}),
        ("redis://h/?db=2", {"db": 2}),
        ("redis://:p%40ss%2Fw%3Aord@h", {"username": "", "password": "p@ss/w:ord"}),
        ("redis://:a/b@c@h", {"password": "a/b@c", "hosts": (Host("h", 6379),)}),
        ("redis://alice:a:b@h", {"username": "alice", "password": "a:b"}),
        ("redis://alice@h", {"username": "alice", "password": ""}),
        ("redis://al%20ice:@[::1]:7000", {"username": "al ice", "hosts": (Host("::1", 7000),)}),
        ("redis://[fe80::1%25eth0]", {"hosts": (Host("fe80::1%eth0", 6379),)}),
        ("rediss://h", {"form": "plain", "tls": TlsOptions()}),
        (
            "rediss://h?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k%20y.pem&ssl_check_hostname=False",
            {"tls": TlsOptions(ca_certs="/ca.pem", certfile="/c.pem", keyfile="/k y.pem", check_hostname=False)},
        ),
        ("rediss://h?ssl_cert_reqs=none", {"tls": TlsOptions(check_hostname=False, cert_reqs="none")}),
        ("unix:///run/redis.sock?db=1", {"form": "unix", "path": "/run/redis.sock", "db": 1, "hosts": ()}),
        ("unix:///run/a@b", {"path": "/run/a@b", "username": ""}),
        ("unix://u:p@/run/a%20b", {"path": "/run/a b", "username": "u", "password": "p"}),
        (
            "redis+cluster://u:p@a:7000,b,[::2]:7001",
            {"form": "cluster", "hosts": (Host("a", 7000), Host("b", 6379), Host("::2", 7001)), "password": "p"},
        ),
        ("rediss+cluster://a/", {"form": "cluster", "tls": TlsOptions()}),
        (
            "redis+sentinel://:p@a,b:7000/my%2Fmaster/4?sentinel_username=s&sentinel_password=q%26r",
            {
                "form": "sentinel",
                "hosts": (Host("a", 26379), Host("b", 7000)),
                "master": "my/master",
                "db": 4,
                "password": "p",
                "sentinel_username": "s",
                "sentinel_password": "q&r",
            },
        ),
        ("rediss+sentinel://a/m", {"master": "m", "tls": TlsOptions()}),
    ],
)
def test_every_form_is_read(url: str, expected: dict[str, object]) -> None:
    """Hosts, ports, database, login, TLS, and the percent signs in them."""
    target = RedisTarget.parse(url)

    assert {name: getattr(target, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("localhost:6379", "must begin with one of redis://"),
        ("http://h", "must begin with one of"),
        ("redis+unix:///run/x", "must begin with one of"),
        ("redis://", r"must have host\[:port\]"),
        ("redis://h:0", "a port from 1 to 65535"),
        ("redis://h:70000", "a port from 1 to 65535"),
        ("redis://a,b", "must have one host"),
        ("redis://::1", r"must have host\[:port\]"),
        ("redis://h/one", "a number as its database"),
        ("redis://h/1/2", "at most one database number"),
        ("redis://h/1?db=1", "at most one database number"),
        ("redis://h?timeout=1", "an option that is none of db"),
        ("redis://h?ssl_ca_certs=/x", "an option that is none of db"),
        ("rediss://h?ssl_ca_certs=", "option ssl_ca_certs must have one value"),
        ("rediss://h?ssl_ca_certs=/a&ssl_ca_certs=/b", "option ssl_ca_certs must have one value"),
        ("rediss://h?ssl_check_hostname=maybe", "must be true or false"),
        ("rediss://h?ssl_cert_reqs=some", "must be one of none, optional, required"),
        ("rediss://h?ssl_keyfile=/k", "needs ssl_certfile"),
        ("unix://run/x", "must have an absolute path"),
        ("redis+cluster://a/1", "a cluster has only database 0"),
        ("redis+sentinel://a", "must name the master"),
        ("redis://h#x", "must have no '#'"),
    ],
)
def test_what_is_wrong_is_named(url: str, fault: str) -> None:
    """A sentence that mends it."""
    with pytest.raises(ValueError, match=fault):
        RedisTarget.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:sesame#door@h",
        "redis://:sesame?door@h",
        "redis://:sesame@h:x",
        "redis://:sesame@h/?a=sesame",
        "redis+cluster://:sesame@door@h,i/1",
        "redis+sentinel://h/m?sentinel_pass=sesame",
    ],
)
def test_a_password_is_never_in_a_message(url: str) -> None:
    """Also one that should have been percent-encoded."""
    with pytest.raises(ValueError, match=r"must|option") as caught:
        RedisTarget.parse(url)

    assert "sesame" not in str(caught.value)
    assert "door" not in str(caught.value)


def test_a_password_apart_from_the_url() -> None:
    """It is used when the URL has none; two are one too many, and neither is shown."""
    assert RedisTarget.parse("redis://alice@h", "sesame").password == "sesame"
    with pytest.raises(ValueError, match="choose one") as caught:
        RedisTarget.parse("redis://:first@h", "second")

    assert "first" not in str(caught.value)
    assert "second" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://alice:sesame@h", "redis://alice@h:6379"),
        ("rediss://:sesame@[::1]:7000/2?ssl_ca_certs=/x", "rediss://[::1]:7000/2"),
        ("unix://:sesame@/run/x?db=1", "unix:///run/x"),
        ("redis+sentinel://:p@a,b/m/1?sentinel_password=sesame", "redis+sentinel://a:26379,b:26379/m/1"),
    ],
)
def test_what_is_shown_has_no_password(url: str, shown: str) -> None:
    """For logs and pages; and the same goes for ``repr``."""
    target = RedisTarget.parse(url)

    assert target.shown == shown
    assert "sesame" not in repr(target)
