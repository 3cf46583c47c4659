"""An attempt owns its entries in the books and releases them once."""

from __future__ import annotations

from gateway.fleet.inflight import InFlight
from gateway.fleet.outcome import Outcome
from gateway.fleet.response_home import Home
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.router.attempt import Attempt, Books
from gateway.router.dispatch_listener import DispatchListener, Nobody
from gateway.router.response_homes import ResponseHomes
from gateway.usage import Usage
from tests.gateway.examples import Clock, Told, a_decision, a_pool
from tests.gateway.router.toy_fleet import ToyFleet


def _attempt(
    clock: Clock,
    routed: Routed,
    speeds: Speeds,
    listener: DispatchListener | None = None,
    *,
    keep: bool = False,
    asks_engine: bool = True,
    homes: ResponseHomes | None = None,
    stored_as: str | None = "",
) -> Attempt:
    pool = a_pool("a=http://a:1/base")
    (replica,) = pool.replicas
    return Attempt(
        a_decision(),
        replica,
        InFlight(0.2, 0.2, 1285, 3.0, True, clock.now, asks_engine=asks_engine),
        [1, 2, 3],
        block_size=16,
        books=Books(routed, speeds, lambda _: keep, listener or Nobody(), clock, homes or ResponseHomes(clock=clock)),
        stored_as=stored_as,
    )


def test_says_where_to_send() -> None:
    """Origin, server and, of one rank, no pin."""
    attempt = _attempt(Clock(), Routed(), Speeds())

    assert (attempt.origin.url, attempt.server_id, attempt.pinned_rank) == ("http://a:1/base", "a", None)


def test_tells_where_a_response_is_kept() -> None:
    """Under its server's id, for requests that refer to it; with the alias by which it was asked for. If it is kept."""
    homes = ResponseHomes(clock=Clock())
    for number, stored_as in enumerate(("", "nick", None)):
        _attempt(Clock(), Routed(), Speeds(), homes=homes, stored_as=stored_as).responded(f"resp_{number}")

    assert [homes.known(f"resp_{number}") for number in range(3)] == [Home("a"), Home("a", "nick"), None]


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


def test_its_server_is_silent_until_its_first_byte() -> None:
    """Sixty seconds without one: stalled. Its end without one leaves nobody waiting, and opens the breaker."""
    clock = Clock()
    answered, given_up = (_attempt(clock, Routed(), Speeds()) for _ in range(2))
    clock.now += 60
    stalled = [attempt._replica.server.is_stalled(clock.now) for attempt in (answered, given_up)]
    answered.first_byte()
    answered.end(Outcome.OK)
    given_up.end(Outcome.CLIENT_GONE)
    a, b = answered._replica.server, given_up._replica.server

    assert stalled == [True, True]
    assert (a.silence.waiting, a.breaker.is_closed) == (0, True)
    assert (b.silence.waiting, b.breaker.is_closed) == (0, False)


def test_what_asks_no_engine_proves_nothing() -> None:
    """A first byte and a good end, and the breaker stays as it was."""
    attempt = _attempt(Clock(), Routed(), Speeds(), asks_engine=False)
    server = attempt._replica.server
    server.breaker.trip(0.0)
    attempt.first_byte()
    attempt.end(Outcome.OK)

    assert server.silence.waiting == 0
    assert not server.breaker.is_closed


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


def test_what_was_claimed_of_it_is_put_to_the_test_once() -> None:
    """At a good end, with the usage that the answer told."""
    fleet = ToyFleet()
    running = fleet.send(range(100))
    fleet.finish(running)
    running.attempt.end(Outcome.OK, usage=Usage(1, 1, 1))
    broken = fleet.send(range(200, 300)).attempt
    broken.end(Outcome.BROKEN)

    assert fleet.truth.total.by_source == {"usage": 1}
    assert fleet.truth.total.miscounted == 0
