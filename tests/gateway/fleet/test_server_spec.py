"""Servers are read from the setting, or refused with the reason."""

from __future__ import annotations

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.server_spec import ServerSpec, parse_servers, short_id


def test_reads_id_url_and_options() -> None:
    """``id=url?options``: all parts arrive."""
    spec = ServerSpec.parse("a=http://10.0.0.7:8000?events=tcp://{host}:5557&replay=tcp://{host}:5657&speed=2.5")

    assert (spec.id, spec.origin.netloc, spec.speed) == ("a", "10.0.0.7:8000", 2.5)
    assert spec.event_source(0) == EventSource("tcp://10.0.0.7:5557", "tcp://10.0.0.7:5657")


def test_both_ports_grow_with_the_rank() -> None:
    """Rank 2 publishes two ports further, and so does its replay."""
    spec = ServerSpec.parse("http://h:1?events=tcp://{host}:5557&replay=tcp://{host}:5657")

    assert spec.event_source(2) == EventSource("tcp://h:5559", "tcp://h:5659")


def test_without_an_id_the_address_is_the_id() -> None:
    """host:port names a server that was given no name."""
    assert [spec.id for spec in parse_servers("http://a:1, b:2/base,foo,,")] == ["a:1", "b:2/base", "foo:80"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://a:1?sped=2", "no option 'sped'; a replica has events, replay, speed, model"),
        ("http://a:1?speed=fast", "speed='fast' is not a number"),
        ("http://a:1?speed=0", "must lie between"),
        ("http://a:1?events=5557", "not a ZeroMQ endpoint"),
        ("http://a:1,http://a:1", "two replicas are named 'a:1'"),
        ("x=", "needs a host"),
        ("gpu 1=http://b:1", "'gpu 1': an id is made of letters"),
        ("gp\N{LATIN SMALL LETTER U WITH DIAERESIS}=http://b:1", "an id is made of letters"),
        ("b=http://b:1,b#1=http://c:1", "'b#1': an id must not end in '#' and a number"),
    ],
)
def test_a_bad_one_says_why(text: str, fault: str) -> None:
    """Faults are named in words."""
    with pytest.raises(ValueError, match=fault):
        parse_servers(text)


def test_of_a_pods_uid_in_an_id_the_first_digits_are_kept() -> None:
    """So long that two pods of one name differ, so short that people can read it."""
    uid = "6f1c2d3e-8a4b-4f6d-9a57-0c1d2e3f4a5b"
    spec = ServerSpec.parse(f"vllm-0@{uid}=http://127.0.0.1:8000?model=tiny")

    assert (spec.id, spec.model) == ("vllm-0@6f1c2d3e", "tiny")
    assert [short_id(name) for name in (uid, f"x{uid}", "a@b")] == [uid, f"x{uid}", "a@b"]
