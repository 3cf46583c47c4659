"""An attempt owns its entries in the books and releases them once."""

from __future__ import annotations

from gateway.fleet.inflight import InFlight
from gateway.fleet.outcome import Outcome
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.router.attempt import Attempt
from gateway.router.dispatch_listener import DispatchListener, Nobody
from gateway.usage import Usage
from tests.gateway.examples import Clock, Told, a_decision, a_pool


def _attempt(
    clock: Clock, routed: Routed, speeds: Speeds, listener: DispatchListener | None = None, *, keep: bool = False
) -> Attempt:
    pool = a_pool("a=http://a:1/base")
    (replica,) = pool.replicas
    return Attempt(
        a_decision(),
        replica,
        InFlight(0.2, 0.2, 1285, 3.0, True, clock.now),
        [1, 2, 3],
        block_size=16,
        routed=routed,
        speeds=speeds,
        keep_routed=lambda: keep,
        listener=listener or Nobody(),
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


def test_a_listener_is_told_once_and_in_order() -> None:
    """However often the edge tells it."""
    told = Told()
    attempt = _attempt(Clock(), Routed(), Speeds(), told)
    for _ in range(2):
        attempt.first_byte()
    for _ in range(2):
        attempt.end(Outcome.BROKEN)
    attempt.first_byte()

    assert told.words == ["a 1285 16 [1, 2, 3]", "first byte", "ended"]


def test_a_listener_is_told_what_is_kept() -> None:
    """Only what was answered stays expected, and only for want of events."""
    words = []
    for keep, outcome in ((True, Outcome.OK), (True, Outcome.BROKEN), (False, Outcome.OK)):
        told = Told()
        _attempt(Clock(), Routed(), Speeds(), told, keep=keep).end(outcome)
        words.append(told.words[-1])

    assert words == ["kept", "ended", "ended"]
