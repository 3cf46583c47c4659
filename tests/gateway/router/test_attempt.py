"""An attempt owns its entries in the books and releases them once."""

from __future__ import annotations

from gateway.fleet.inflight import InFlight
from gateway.fleet.outcome import Outcome
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.router.attempt import Attempt
from gateway.usage import Usage
from tests.gateway.examples import Clock, a_decision, a_pool


def _attempt(clock: Clock, routed: Routed, speeds: Speeds) -> Attempt:
    pool = a_pool("a=http://a:1/base")
    (replica,) = pool.replicas
    return Attempt(
        a_decision(),
        replica,
        InFlight(0.2, 0.2, 1285, 3.0, True, clock.now),
        routed.add(replica.key, {16: [1, 2, 3]}, now=clock.now),
        routed=routed,
        speeds=speeds,
        keep_routed=lambda: False,
        clock=clock,
    )


def test_says_where_to_send() -> None:
    """Origin, server and, of one rank, no pin."""
    attempt = _attempt(Clock(), Routed(), Speeds())

    assert (attempt.origin.url, attempt.server_id, attempt.pinned_rank) == ("http://a:1/base", "a", None)


def test_its_blocks_are_expected_until_a_moment_after_its_end() -> None:
    """In flight, then a second of grace for events to come, then gone."""
    clock, routed = Clock(), Routed()
    attempt = _attempt(clock, routed, Speeds())
    key = attempt._replica.key
    during = routed.match({16: [1, 2, 3]}, [key], now=clock.now)
    attempt.end(Outcome.OK)
    at_its_end = routed.match({16: [1, 2, 3]}, [key], now=clock.now)
    clock.now += 1.1

    assert during == at_its_end == {key: 48}
    assert routed.match({16: [1, 2, 3]}, [key], now=clock.now) == {}


def test_the_first_end_counts() -> None:
    """A failure told after success changes no breaker, success after failure neither."""
    attempt = _attempt(Clock(), Routed(), Speeds())
    server = attempt._replica.server
    for outcome in [Outcome.OK] + [Outcome.BROKEN] * 9:
        attempt.end(outcome)

    assert server.breaker.is_closed


def test_output_lengths_come_from_usage() -> None:
    """A streamed answer that told its usage moves the mean length; without usage only the time counts."""
    clock, speeds = Clock(), Speeds()
    attempt = _attempt(clock, Routed(), speeds)
    attempt.first_byte()
    clock.now += 5
    attempt.end(Outcome.OK, usage=Usage(10, 1256, None))

    assert speeds.output_tokens == 256 + 0.02 * 1000
