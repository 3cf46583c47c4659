"""One server's health: what its probes, its answers and its silence say."""

from __future__ import annotations

import logging

import pytest

from gateway.fleet.load_report import LoadReport
from gateway.fleet.outcome import Outcome, Sign
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server, faults_of
from gateway.fleet.server_spec import parse_servers
from tests.gateway.examples import a_pool


def _server() -> Server:
    (server,) = a_pool("a=http://a:1").servers
    return server


def _attempt(server: Server, outcome: Outcome, sent_s: float, ended_s: float, *, answered: bool = False) -> None:
    """One whole request. ``answered``: its first byte came at once."""
    server.sent(sent_s)
    if answered:
        server.answered(sent_s, sent_s)
    server.attempt_ended(outcome, None, ended_s, sent_s=sent_s, answered=answered)


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


def test_one_that_is_another_than_was_meant_is_unhealthy_at_once_and_one_answer_heals() -> None:
    server = _server()
    server.refuted("serves x, not y")
    refuted = (server.healthy, server.fault, server.obstacle(0.0))
    server.probe_answered()

    assert refuted == (False, "serves x, not y", "unhealthy")
    assert (server.healthy, server.fault) == (True, "")


def test_who_sleeps_is_not_healthy_until_it_wakes() -> None:
    """Though it answers its probes; and a fault is told before its sleep."""
    server = _server()
    server.slept(True)
    server.probe_answered()
    assert (server.healthy, server.is_ready(0.0), server.fault, server.obstacle(0.0)) == (
        False,
        False,
        "asleep",
        "asleep",
    )
    assert faults_of([server]) == "a: asleep"

    server.probe_missed("gone")
    assert server.fault == "gone"
    server.probe_answered()
    server.slept(False)
    assert (server.healthy, server.is_ready(0.0), server.fault) == (True, True, "")


def test_a_server_that_was_found_asleep_was_never_healthy() -> None:
    """So that nobody is ready because of it."""
    pool = ReplicaPool()
    pool.reconcile(parse_servers("a=http://a:1"))
    (server,) = pool.servers
    server.slept(True)
    server.probe_answered()

    assert not pool.was_ready
    server.slept(False)
    assert pool.was_ready


def test_resets_that_were_seen_otherwise_are_no_news() -> None:
    """The first count is none either, nor that of a process that began anew."""
    server = _server()
    news = [server.resets_counted(count) for count in (5.0, 5.0, 6.0, 0.0)]
    server.reset_seen()
    news += [server.resets_counted(count) for count in (0.0, 1.0, 1.0, 2.0)]
    server.reset_seen()
    news += [server.resets_counted(4.0)]

    assert news == [False, False, True, False, False, False, False, True, True]


def test_a_reset_seen_before_the_first_count_hides_no_later_one() -> None:
    """That count holds it already; so may the first of a process that began anew."""
    server = _server()
    server.reset_seen()
    news = [server.resets_counted(count) for count in (3.0, 4.0)]
    server.reset_seen()
    news += [server.resets_counted(count) for count in (1.0, 2.0)]

    assert news == [False, True, False, True]


def test_retry_after_is_bounded() -> None:
    """A replica that asks for an hour, or for less than nothing, gets half a minute, or nothing."""
    server = _server()
    server.sent(0.0)
    server.attempt_ended(Outcome.BUSY, 3600.0, 0.0, sent_s=0.0, answered=False)
    hour = [server.is_ready(29.9), server.is_ready(30.0)]
    server.sent(100.0)
    server.attempt_ended(Outcome.BUSY, -5.0, 100.0, sent_s=100.0, answered=False)

    assert hour == [False, True]
    assert server.is_ready(100.0)


def test_without_a_list_of_models_it_may_serve_any() -> None:
    """Some servers guard /v1/models; that must not keep them idle."""
    server = _server()
    server.cards = ()

    assert server.serves("anything")
    assert server.namespace is None


# Every row of the table


@pytest.mark.parametrize("outcome", Outcome)
def test_five_in_a_row_open_the_breaker_only_where_the_table_says_so(outcome: Outcome) -> None:
    """What is no failure may happen any number of times; a stall needs no second."""
    server = _server()
    opened_after = 0
    for number in range(1, 60):
        _attempt(server, outcome, number * 100.0, number * 100.0 + 1, answered=True)
        if not server.breaker.is_closed:
            opened_after = number
            break

    assert opened_after == {"a failure": 5, "opens the breaker at once": 1}.get(outcome.sign.value, 0)


@pytest.mark.parametrize("outcome", Outcome)
def test_an_open_breaker_is_closed_by_a_real_success_alone(outcome: Outcome) -> None:
    """Half-open, one request ends so. A 4xx frees the slot and says nothing of the engine."""
    server = _server()
    server.breaker.trip(0.0)
    _attempt(server, outcome, 10.0, 11.0, answered=outcome is Outcome.OK)

    assert server.breaker.is_closed is (outcome is Outcome.OK)


def test_a_404_never_changes_health_or_models() -> None:
    """A thousand of them: healthy, closed, and serving what it served."""
    server = _server()
    cards = server.cards
    for number in range(1000):
        _attempt(server, Outcome.CLIENT_ERROR, float(number), number + 0.5)

    assert server.is_ready(1000.0)
    assert server.cards == cards


def test_an_opened_breaker_is_told_once_each_way(caplog: pytest.LogCaptureFixture) -> None:
    """With the last straw."""
    server = _server()
    with caplog.at_level(logging.WARNING):
        for number in range(7):
            _attempt(server, Outcome.BROKEN, float(number), number + 0.5)
        _attempt(server, Outcome.OK, 30.0, 31.0, answered=True)

    assert caplog.messages == ["replica a is left alone for a while: broken", "replica a answers again"]


# Stalls: it passes /health, and never answers


def test_waiting_for_long_without_a_byte_is_a_stall() -> None:
    """It gets no new requests; a byte to anybody ends that."""
    server = _server()
    server.sent(100.0)
    before = server.is_ready(159.9)
    stalled = server.is_ready(160.0)
    server.heard(161.0)

    assert (before, stalled) == (True, False)
    assert server.is_ready(162.0)


def test_who_streams_to_others_is_not_stalled() -> None:
    """One request waits for an hour behind others, whose bytes come."""
    server = _server()
    server.sent(0.0)
    for second in range(0, 3600, 10):
        server.heard(float(second))

    assert server.is_ready(3600.0)


def test_an_idle_server_is_not_stalled() -> None:
    """Nobody waits for it."""
    server = _server()
    _attempt(server, Outcome.OK, 0.0, 1.0, answered=True)

    assert server.is_ready(10_000.0)


@pytest.mark.parametrize("ending", [Outcome.CLIENT_GONE, Outcome.FIRST_BYTE_TIMEOUT])
def test_giving_up_on_a_stalled_server_opens_its_breaker(ending: Outcome) -> None:
    """At once: it is known that it kept somebody waiting in vain."""
    server = _server()
    _attempt(server, ending, 0.0, 61.0)

    assert server.breaker.state(61.0) == "open"
    assert server.stalls == 1


def test_clients_that_give_up_sooner_are_no_cover() -> None:
    """Thirty seconds each, one after the other: the second opens it."""
    server = _server()
    _attempt(server, Outcome.CLIENT_GONE, 0.0, 30.0)
    after_one = server.breaker.is_closed
    _attempt(server, Outcome.CLIENT_GONE, 40.0, 70.0)

    assert (after_one, server.breaker.is_closed) == (True, False)


def test_a_client_that_leaves_early_says_nothing() -> None:
    """Nor does one that leaves late, when others were answered meanwhile."""
    server = _server()
    server.sent(0.0)
    _attempt(server, Outcome.OK, 50.0, 55.0, answered=True)
    server.attempt_ended(Outcome.CLIENT_GONE, None, 70.0, sent_s=0.0, answered=False)

    assert server.breaker.is_closed


def test_a_stalled_server_returns_only_after_a_real_success() -> None:
    """/health passes all the time. One request at a time finds out: gone, 4xx, gone, then one that completes."""
    server = _server()
    _attempt(server, Outcome.CLIENT_GONE, 0.0, 61.0)
    ready = [server.is_ready(now) for now in (62.0, 70.9, 71.0)]
    server.sent(71.0)
    ready += [server.is_ready(now) for now in (72.0, 90.0, 200.0)]
    server.attempt_ended(Outcome.CLIENT_GONE, None, 200.0, sent_s=71.0, answered=False)
    _attempt(server, Outcome.CLIENT_ERROR, 210.0, 210.1)
    after_4xx = server.breaker.is_closed
    _attempt(server, Outcome.OK, 211.0, 212.0, answered=True)

    assert ready == [False, False, True, False, False, False]
    assert not after_4xx
    assert server.breaker.is_closed
    assert server.is_ready(212.0)


def test_what_asks_no_engine_speaks_for_none() -> None:
    """/tokenize is answered all the time: that neither ends a silence nor closes a breaker."""
    server = _server()
    server.sent(0.0)
    for second in range(1, 61):
        server.sent(float(second))
        server.attempt_ended(Outcome.OK, None, second + 0.1, sent_s=float(second), answered=False, asked_engine=False)
    stalled = server.is_stalled(60.5)
    server.breaker.trip(60.5)
    server.sent(71.0)
    server.attempt_ended(Outcome.OK, None, 71.1, sent_s=71.0, answered=False, asked_engine=False)

    assert stalled
    assert server.breaker.state(71.1) == "half_open"


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome.sign is not Sign.STALL])
def test_only_those_that_were_given_up_on_add_to_a_silence(outcome: Outcome) -> None:
    """A hundred requests of a second each that end so: then one client that leaves at once says nothing."""
    server = _server()
    given_up = outcome in (Outcome.CLIENT_GONE, Outcome.FIRST_BYTE_TIMEOUT)
    for number in range(0, 200, 2):
        _attempt(server, outcome, float(number), number + 1.0)
        if server.stalls:
            break
    _attempt(server, Outcome.CLIENT_GONE, 300.0, 300.01)

    assert (server.stalls > 0) is given_up


@pytest.mark.parametrize("asked_engine", [True, False])
def test_quick_answers_are_no_silence(asked_engine: bool) -> None:
    """Hundreds of 400s, or of /tokenize: the next request does not find a stalled server."""
    server = _server()
    outcome = Outcome.CLIENT_ERROR if asked_engine else Outcome.OK
    for number in range(700):
        sent_s = float(number)
        server.sent(sent_s)
        server.attempt_ended(outcome, None, sent_s + 0.1, sent_s=sent_s, answered=False, asked_engine=asked_engine)
    server.sent(700.0)

    assert not server.is_stalled(700.1)
    assert server.is_ready(700.1)


def test_an_engine_whose_counters_grow_works() -> None:
    """A plain answer of two minutes: no byte until it is whole, and tokens in its metrics. A hung one stands still."""
    working, hung = _server(), _server()
    for server in (working, hung):
        server.sent(0.0)
        for second in range(0, 121, 2):
            tokens = float(second if server is working else 0)
            server.replicas[0].reported(LoadReport(generated_tokens=tokens), float(second))

    assert working.is_ready(121.0)
    assert not hung.is_ready(121.0)


def test_another_process_is_not_blamed() -> None:
    """Neither for failures nor for silence."""
    server = _server()
    server.sent(0.0)
    server.breaker.trip(61.0)
    server.began_anew(62.0)

    assert server.is_ready(63.0)


def test_faults_of_several_are_told_briefly() -> None:
    """Of three, and how many more there are."""
    servers = list(a_pool(",".join(f"{id_}=http://{id_}:1" for id_ in "abcde")).servers)
    for server in servers:
        server.probe_missed("slow")
    servers[1].draining = True

    assert faults_of(servers) == "a: slow; b: draining; c: slow and 2 more"
    assert faults_of([]) == "every one was tried"


def test_what_keeps_it_from_being_ready_has_a_word() -> None:
    """As long as it does; the worst first."""
    server = _server()
    words = [server.obstacle(0.0)]
    server.sent(0.0)
    words.append(server.obstacle(60.0))
    server.attempt_ended(Outcome.BUSY, 9.0, 60.0, sent_s=0.0, answered=False)
    words.append(server.obstacle(61.0))
    server.breaker.trip(70.0)
    words += [server.obstacle(71.0), server.obstacle(80.0)]
    server.breaker.sent(80.0)
    words.append(server.obstacle(81.0))
    server.draining = True
    words.append(server.obstacle(81.0))
    for _ in range(3):
        server.probe_missed("gone")
    words.append(server.obstacle(81.0))

    assert words == ["", "stalled", "pushing back", "breaker open", "", "breaker half open", "draining", "unhealthy"]
