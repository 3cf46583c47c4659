"""One server's health."""

from __future__ import annotations

from gateway.fleet.outcome import Outcome
from gateway.fleet.server import Server
from tests.gateway.examples import a_pool


def _server() -> Server:
    (server,) = a_pool("a=http://a:1").servers
    return server


def test_three_misses_make_it_unhealthy_and_one_answer_heals() -> None:
    """The last fault is kept for people."""
    server = _server()
    states = []
    for fault in ("slow", "slow", "gone"):
        server.probe_missed(fault)
        states.append(server.healthy)
    server.probe_answered()

    assert states == [True, True, False]
    assert server.healthy
    assert server.fault == ""


def test_retry_after_is_bounded() -> None:
    """A replica that asks for an hour, or for less than nothing, gets half a minute, or nothing."""
    server = _server()
    server.attempt_ended(Outcome.BUSY, 3600.0, now=0.0)
    hour = [server.is_ready(29.9), server.is_ready(30.0)]
    server.attempt_ended(Outcome.BUSY, -5.0, now=100.0)

    assert hour == [False, True]
    assert server.is_ready(100.0)


def test_without_a_list_of_models_it_may_serve_any() -> None:
    """Some servers guard /v1/models; that must not keep them idle."""
    server = _server()
    server.cards = ()

    assert server.serves("anything")
    assert server.namespace is None
