"""The pool: membership keeps state, names resolve, and only those who may be are chosen from."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, ModelNotFound, NoReplica
from gateway.fleet.event_source import EventSource
from gateway.fleet.inflight import InFlight
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool, ServedModel
from gateway.fleet.server_spec import parse_servers

BASE: dict[str, object] = {"id": "tiny", "root": "/models/tiny", "parent": None, "max_model_len": 1024}
LORA: dict[str, object] = {"id": "ad1", "root": "/lora/ad1", "parent": "tiny"}


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


def test_an_empty_fleet_says_so() -> None:
    """503 with the reason, for any model."""
    with pytest.raises(NoReplica, match="No replica is configured"):
        ReplicaPool().resolve("tiny")


def test_names_resolve_to_base_models_and_adapters() -> None:
    """An adapter's name means its base's caches and its own chains; no name means the only model."""
    pool = _pool("a=http://a:1", BASE, LORA)

    assert pool.resolve("tiny") == ServedModel("tiny", "tiny", "")
    assert pool.resolve("ad1") == ServedModel("ad1", "tiny", "ad1")
    assert pool.resolve("") == ServedModel("tiny", "tiny", "")


def test_an_unknown_model_is_not_found_and_two_models_need_a_name() -> None:
    """404 for the one, 400 for the other."""
    pool = _pool()
    pool.identify(pool.server("b"), parse_models({"data": [{"id": "other"}]}), {})  # type: ignore[arg-type]

    with pytest.raises(ModelNotFound, match="'nope' does not exist"):
        pool.resolve("nope")
    with pytest.raises(BadRequest, match="names no model; this gateway serves other, tiny"):
        pool.resolve("")


def test_models_of_a_server_that_is_down_are_known_still() -> None:
    """Its model is unavailable (503), not unknown (404)."""
    pool = _pool("a=http://a:1")
    for _ in range(3):
        pool.server("a").probe_missed("/health: ConnectError")  # type: ignore[union-attr]

    assert pool.resolve("tiny").namespace == "tiny"
    with pytest.raises(NoReplica, match="No healthy replica: a: /health: ConnectError"):
        _ids(pool)


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
    pool.server("a").attempt_ended(outcome, 3.0, now=10.0)  # type: ignore[union-attr]

    assert _ids(pool, now=12.9) == ["b"]
    assert _ids(pool, now=13.0) == ["a", "b"]
    assert _ids(pool, tried=frozenset({"b"}), now=10.0) == ["a"]


def test_an_open_breaker_is_avoided_and_better_than_nothing() -> None:
    """All open: the least bad is tried."""
    pool = _pool()
    for _ in range(5):
        pool.server("a").attempt_ended(Outcome.UNREACHABLE, None, now=0.0)  # type: ignore[union-attr]

    assert _ids(pool) == ["b"]
    for _ in range(5):
        pool.server("b").attempt_ended(Outcome.BROKEN, None, now=0.0)  # type: ignore[union-attr]
    assert _ids(pool) == ["a", "b"]


@pytest.mark.parametrize("outcome", [Outcome.CLIENT_ERROR, Outcome.BUSY, Outcome.CLIENT_GONE, Outcome.OK])
def test_the_clients_faults_are_not_the_servers(outcome: Outcome) -> None:
    """4xx, 429 and disconnects never open a breaker."""
    pool = _pool("a=http://a:1")
    server = pool.server("a")
    assert server is not None
    for _ in range(50):
        server.attempt_ended(outcome, None, now=0.0)

    assert server.breaker.state(0.0) == "closed"


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
    with pytest.raises(NoReplica, match="a: draining"):
        _ids(pool, tried=frozenset({"b"}))


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
        pool.process_started(server, start_s)

    assert members.log == ["!a"]


def test_a_new_process_is_not_blamed_for_the_old_one() -> None:
    """The breaker closes with it."""
    pool = _pool("a=http://a:1")
    server = pool.server("a")
    assert server is not None
    pool.process_started(server, 100.0)
    for second in range(9):
        server.attempt_ended(Outcome.BROKEN, None, now=second + 0.5, sent_s=float(second))
    before = server.breaker.is_closed
    pool.process_started(server, 200.0)

    assert (before, server.breaker.is_closed) == (False, True)


def test_models_are_the_union_of_the_healthy() -> None:
    """By id, fields kept."""
    pool = _pool()
    pool.identify(pool.server("b"), parse_models({"data": [BASE, {"id": "other", "x": 1}]}), {})  # type: ignore[arg-type]

    assert [card.fields for card in pool.models()] == [BASE, {"id": "other", "x": 1}]
