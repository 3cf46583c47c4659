"""The pool: membership keeps state, names resolve, and only those who may be are chosen from."""

from __future__ import annotations

import pytest

from gateway.errors import NoReplica
from gateway.fleet.event_source import EventSource
from gateway.fleet.inflight import InFlight
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server
from gateway.fleet.server_spec import parse_servers

BASE: dict[str, object] = {"id": "tiny", "root": "/models/tiny", "parent": None, "max_model_len": 1024}


class Members:
    """Remembers who joined and left."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        self.log.append(f"+{replica.id}@{source.endpoint if source else None}")

    def left(self, replica: Replica) -> None:
        self.log.append(f"-{replica.id}")

    def process_changed(self, replica: Replica) -> None:
        self.log.append(f"!{replica.id}")


def _pool(servers: str = "a=http://a:1,b=http://b:1", *cards: dict[str, object]) -> ReplicaPool:
    pool = ReplicaPool()
    pool.reconcile(parse_servers(servers))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": list(cards) or [BASE]}), {})
        server.probe_answered()
    return pool


def _server(pool: ReplicaPool, id_: str) -> Server:
    server = pool.server(id_)
    assert server is not None
    return server


def _ended(server: Server, outcome: Outcome, now: float, *, retry_after_s: float | None = None) -> None:
    """A request sent half a second before ``now`` ended so."""
    server.sent(now - 0.5)
    server.attempt_ended(outcome, retry_after_s, now, sent_s=now - 0.5, answered=False)


def _ids(pool: ReplicaPool, model: str = "tiny", tried: frozenset[str] = frozenset(), now: float = 0.0) -> list[str]:
    return [replica.id for replica in pool.routable(model, tried, now)]


def test_a_reload_keeps_the_state_of_those_that_stay() -> None:
    """Load survives a new list; who left is told; who changed its address is somebody else."""
    pool = _pool()
    members = Members()
    pool.listen(members)
    (replica,) = pool.server("a").replicas  # type: ignore[union-attr]
    replica.workload.dispatch(InFlight(1, 1, 1, 1, True, 0), 0)

    pool.reconcile(parse_servers("a=http://a:1,c=http://c:1"))

    assert pool.server("a").replicas[0].workload.inflight == 1  # type: ignore[union-attr]
    assert members.log == ["-b"]
    assert _ids(pool) == ["a"]


def test_models_of_a_server_that_is_down_are_known_still() -> None:
    """Its model is unavailable (503), not unknown (404)."""
    pool = _pool("a=http://a:1")
    for _ in range(3):
        pool.server("a").probe_missed("/health: ConnectError")  # type: ignore[union-attr]

    assert pool.names.resolve("tiny").namespace == "tiny"
    with pytest.raises(NoReplica) as refused:
        _ids(pool)
    assert (str(refused.value), refused.value.detail) == ("No replica is healthy.", "a: /health: ConnectError")


def test_one_missed_probe_of_a_healthy_server_changes_nothing() -> None:
    """Slow is not dead: three misses in a row are."""
    pool = _pool()
    pool.server("a").probe_missed("slow")  # type: ignore[union-attr]
    pool.server("a").probe_missed("slow")  # type: ignore[union-attr]

    assert _ids(pool) == ["a", "b"]


@pytest.mark.parametrize("outcome", [Outcome.BUSY, Outcome.UNAVAILABLE])
def test_pushback_sends_others_elsewhere_for_a_while(outcome: Outcome) -> None:
    """After 429 or 503 the other replica is chosen, until Retry-After is over; alone it is tried all the same."""
    pool = _pool()
    _ended(_server(pool, "a"), outcome, 10.0, retry_after_s=3.0)

    assert _ids(pool, now=12.9) == ["b"]
    assert _ids(pool, now=13.0) == ["a", "b"]
    assert _ids(pool, tried=frozenset({"b"}), now=10.0) == ["a"]


def test_an_open_breaker_is_avoided_and_better_than_nothing() -> None:
    """All open: any of them is tried."""
    pool = _pool()
    for number in range(5):
        _ended(_server(pool, "a"), Outcome.UNREACHABLE, float(number))

    assert _ids(pool, now=5.0) == ["b"]
    for number in range(5):
        _ended(_server(pool, "b"), Outcome.BROKEN, float(number))
    assert _ids(pool, now=5.0) == ["a", "b"]


def test_of_those_that_are_not_ready_the_least_bad_is_tried() -> None:
    """Who pushes back before who is stalled, and that before an open breaker; one that is down never."""
    pool = _pool("pushes=http://a:1,stalled=http://b:1,open=http://c:1,down=http://d:1")
    _server(pool, "stalled").sent(0.0)
    _server(pool, "open").breaker.trip(100.0)
    _ended(_server(pool, "pushes"), Outcome.BUSY, 100.0, retry_after_s=30.0)
    for _ in range(3):
        _server(pool, "down").probe_missed("gone")

    assert _ids(pool, now=101.0) == ["pushes"]
    assert _ids(pool, now=101.0, tried=frozenset({"pushes"})) == ["stalled"]
    assert _ids(pool, now=101.0, tried=frozenset({"pushes", "stalled"})) == ["open"]
    with pytest.raises(NoReplica) as refused:
        _ids(pool, now=101.0, tried=frozenset({"pushes", "stalled", "open"}))
    assert refused.value.detail == "down: gone"


def test_a_server_is_heard_by_its_origin() -> None:
    """Bytes from there end its silence, of an address that left nothing is known."""
    pool = _pool()
    a, b = _server(pool, "a"), _server(pool, "b")
    a.sent(0.0)
    b.sent(0.0)
    pool.heard(a.spec.origin, 30.0)
    pool.reconcile(parse_servers("a=http://a:1"))
    pool.heard(b.spec.origin, 30.0)

    assert (a.silence.seconds(60.0), b.silence.seconds(60.0)) == (30.0, 60.0)


@pytest.mark.parametrize("outcome", [Outcome.CLIENT_ERROR, Outcome.BUSY, Outcome.CLIENT_GONE, Outcome.OK])
def test_the_clients_faults_are_not_the_servers(outcome: Outcome) -> None:
    """4xx, 429 and disconnects never open a breaker."""
    pool = _pool("a=http://a:1")
    server = pool.server("a")
    assert server is not None
    for number in range(50):
        _ended(server, outcome, float(number))

    assert server.breaker.state(50.0) == "closed"


def test_the_drained_are_drained_whenever_they_come() -> None:
    """Those that are here, that come later, and that leave and come back; exactly those of the last call."""
    pool = _pool()
    pool.set_drained(["a", "c"])
    at_once = [server.id for server in pool.servers if server.draining]
    pool.reconcile(parse_servers("b=http://b:1,c=http://c:1"))
    pool.reconcile(parse_servers("a=http://a:2,b=http://b:1,c=http://c:1"))
    later = [server.id for server in pool.servers if server.draining]
    pool.set_drained(["b"])

    assert at_once == ["a"]
    assert later == ["c", "a"]
    assert [server.id for server in pool.servers if server.draining] == ["b"]


def test_draining_takes_no_new_requests() -> None:
    """A drained server is not chosen, and its reason is told when nobody else is left."""
    pool = _pool()
    pool.server("a").draining = True  # type: ignore[union-attr]

    assert _ids(pool) == ["b"]
    with pytest.raises(NoReplica) as refused:
        _ids(pool, tried=frozenset({"b"}))
    assert refused.value.detail == "a: draining"


def _running(server: Server) -> InFlight:
    """A request that runs there."""
    inflight = InFlight(1, 1, 1, 1, True, 0)
    server.replicas[0].workload.dispatch(inflight, 0)
    server.sent(0.0)
    return inflight


def _end(server: Server, inflight: InFlight) -> None:
    server.replicas[0].workload.end(inflight)
    server.attempt_ended(Outcome.OK, None, 1.0, sent_s=0.0, answered=False)


def test_a_drained_server_leaves_when_nothing_runs_there_and_joins_again() -> None:
    """Two requests run on: with the end of the second its replicas leave, once. Undrained, they join."""
    pool = _pool("a=http://a:1")
    members = Members()
    pool.listen(members)
    server = _server(pool, "a")
    first, second = _running(server), _running(server)
    pool.set_drained(["a"])
    _end(server, first)
    before = (list(members.log), server.drained)
    _end(server, second)
    after = (list(members.log), server.drained)
    pool.set_drained(["a"])
    pool.set_drained([])

    assert before == ([], False)
    assert after == (["-a"], True)
    assert members.log == ["-a", "+a@None"]
    assert _ids(pool) == ["a"]


def test_requests_of_other_gateways_keep_it_too() -> None:
    """Their ends are not told here one by one: a probe's round finds out."""
    pool = _pool("a=http://a:1")
    members = Members()
    pool.listen(members)
    server = _server(pool, "a")
    theirs = InFlight(1, 1, 1, 1, True, 0, ours=False)
    server.replicas[0].workload.dispatch(theirs, 0)
    pool.set_drained(["a"])
    pool.settle_drain(server)
    before = list(members.log)
    server.replicas[0].workload.end(theirs)
    pool.settle_drain(server)

    assert before == []
    assert members.log == ["-a"]


def test_a_drained_server_stays_away_whatever_probes_learn() -> None:
    """New ranks and sources, and a server that comes drained: nobody joins. One more request there changes nothing."""
    pool = _pool("a=http://a:1")
    pool.set_drained(["a", "b"])
    members = Members()
    pool.listen(members)
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": [BASE]}), {0: EventSource("tcp://a:5")}, [0, 1])
    _end(_server(pool, "a"), _running(_server(pool, "a")))
    before = list(members.log)
    pool.set_drained(["b"])

    assert before == []
    assert members.log == ["+a@tcp://a:5", "+a#1@None"]


def test_undrained_in_time_it_never_left() -> None:
    """What ran ends afterwards."""
    pool = _pool("a=http://a:1")
    members = Members()
    pool.listen(members)
    server = _server(pool, "a")
    running = _running(server)
    pool.set_drained(["a"])
    pool.set_drained([])
    _end(server, running)

    assert members.log == []
    assert not server.drained


def test_ranks_are_replicas_pinned_where_there_are_several() -> None:
    """Two event sources make two replicas of one server."""
    pool = _pool("a=http://a:1")
    members = Members()
    pool.listen(members)
    server = pool.server("a")
    assert server is not None
    pool.identify(server, server.cards, {0: EventSource("tcp://a:5"), 1: EventSource("tcp://a:6")}, [0, 1])

    assert [(r.id, r.pinned_rank) for r in server.replicas] == [("a", 0), ("a#1", 1)]
    assert members.log == ["-a", "+a@tcp://a:5", "+a#1@tcp://a:6"]


def test_a_restart_makes_a_new_key_once() -> None:
    """Two reports of one restart are one restart."""
    pool = _pool("a=http://a:1")
    old = pool.server("a").replicas[0].key  # type: ignore[union-attr]

    new = pool.restart(old)

    assert new == old._replace(incarnation=1)
    assert pool.restart(old) == new


def test_a_new_process_is_announced_once() -> None:
    """The first start time is no news; a different one is."""
    pool = _pool("a=http://a:1")
    members = Members()
    pool.listen(members)
    server = pool.server("a")
    assert server is not None
    for start_s in (100.0, 100.0, 200.0, 200.0):
        pool.process_started(server, start_s, 0.0)

    assert members.log == ["!a"]


def test_replicas_whose_caches_were_emptied_are_told() -> None:
    """By falling asleep and waking, by a reset that was seen here, or one that the server counted."""
    pool = _pool()
    server = _server(pool, "a")
    emptied: list[str] = []
    pool.listen_to_resets(lambda replica: emptied.append(replica.id))
    for asleep in (True, True, False):
        pool.slept(server, asleep=asleep)
    assert emptied == ["a", "a"]

    for count in (1.0, 2.0):
        pool.resets_counted(server, count)
    assert len(emptied) == 3
    pool.cache_reset(server)
    pool.resets_counted(server, 3.0)  # that one
    assert emptied == ["a"] * 4


def test_nobody_who_sleeps_is_chosen() -> None:
    """Not even if all do: they would not answer."""
    pool = _pool()
    pool.slept(_server(pool, "a"), asleep=True)
    assert _ids(pool) == ["b"]

    pool.slept(_server(pool, "b"), asleep=True)
    with pytest.raises(NoReplica) as error:
        _ids(pool)
    assert "a: asleep; b: asleep" in error.value.detail
    pool.slept(_server(pool, "a"), asleep=False)
    assert _ids(pool) == ["a"]


def test_a_new_process_is_not_blamed_for_the_old_one() -> None:
    """The breaker closes with it."""
    pool = _pool("a=http://a:1")
    server = _server(pool, "a")
    pool.process_started(server, 100.0, 0.0)
    for second in range(9):
        _ended(server, Outcome.BROKEN, second + 0.5)
    before = server.breaker.is_closed
    pool.process_started(server, 200.0, 10.0)

    assert (before, server.breaker.is_closed) == (False, True)


def test_members_are_those_of_one_namespace_as_it_is_now() -> None:
    """A server that comes, goes, serves something else or restarts changes them; its health does not."""
    pool = _pool()
    a, b = (server.replicas[0] for server in pool.servers)
    assert pool.members("tiny") == ([a, b], [a.key, b.key])

    _server(pool, "a").probe_missed("down")
    new = pool.restart(b.key)
    assert pool.members("tiny") == ([a, b], [a.key, new])

    pool.identify(a.server, parse_models({"data": [{"id": "other"}]}), {})
    assert pool.members("tiny").keys == [new]
    assert [key.server_id for key in pool.members("other").keys] == ["a"]

    pool.reconcile(parse_servers("a=http://a:1"))
    assert pool.members("tiny").keys == []


def test_who_serves_a_model_is_as_it_is_now() -> None:
    """However often it was asked before."""
    pool = _pool()
    assert _ids(pool) == ["a", "b"]

    pool.identify(_server(pool, "a"), parse_models({"data": [{"id": "other"}]}), {})
    assert (_ids(pool), _ids(pool, "other")) == (["b"], ["a"])

    pool.reconcile(parse_servers("b=http://b:1"))
    assert _ids(pool) == ["b"]
    with pytest.raises(NoReplica):
        _ids(pool, "other")


def test_what_is_held_back_gets_nothing_new_and_is_known_on() -> None:
    """Its finder says that it is not ready: nothing of it is forgotten, and it is the last resort but one."""
    pool = _pool()
    members = Members()
    pool.listen(members)
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"), {"a"})

    assert _ids(pool) == ["b"]
    assert (_server(pool, "a").healthy, _server(pool, "a").obstacle(0.0)) == (True, "held back")
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"), {"a", "b"})
    assert _ids(pool) == ["a", "b"]
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"))
    assert _ids(pool) == ["a", "b"]
    assert members.log == []


def test_one_that_pushes_back_is_better_than_one_held_back() -> None:
    pool = _pool()
    _ended(_server(pool, "b"), Outcome.BUSY, 0.0, retry_after_s=5.0)
    pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"), {"a"})

    assert _ids(pool, now=1.0) == ["b"]
