"""/status and /replicas."""

from __future__ import annotations

import json

from gateway.fleet.inflight import InFlight
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.observe.status import Status
from tests.gateway.examples import Clock, a_pool


def _status(pool: ReplicaPool, stats: FeedStats | None = None) -> Status:
    return Status(
        pool,
        MemoryIndex(),
        lambda _: stats,
        Speeds(),
        strategy=lambda: "kv_aware",
        shared=lambda: {"kind": "memory", "block_owners": 0},
        orders=lambda: {"version": 3, "orders": []},
        tokenizers=lambda: {"tiny": "LocalEncoder"},
        ready=lambda: True,
        settings={"PREFIXWAY_API_KEYS": "***"},
        unknown_settings=("PREFIXWAY_X is no setting",),
        clock=Clock(),
        more={"admission": lambda: {"waiting": 2}},
    )


def test_the_whole_gateway_is_json() -> None:
    """Every part has its place."""
    stats = FeedStats(block_sizes={Tier.L0: 16}, malformed_frames=2, starts=1)
    page = json.loads(json.dumps(_status(a_pool(), stats).status()))

    assert (page["ready"], page["strategy"], page["models"]) == (True, "kv_aware", {"tiny": "LocalEncoder"})
    assert page["admission"] == {"waiting": 2}
    assert page["speeds"]["rates"]["prefill_tokens_s"]["prior"] == 8_000
    assert [replica["id"] for replica in page["replicas"]] == ["a", "b"]
    assert page["replicas"][0]["events"]["block_sizes"] == {"l0": 16}
    assert (page["replicas"][0]["events"]["malformed_frames"], page["replicas"][0]["events"]["starts"]) == (2, 1)
    assert page["replicas"][0]["owned_blocks"] == {"l0": 0, "l1": 0, "l2": 0}


def test_requests_are_counted_by_who_sent_them() -> None:
    """From here, and elsewhere."""
    pool = a_pool()
    replica = next(pool.replicas)
    for ours in (True, False, False):
        replica.workload.dispatch(InFlight(0.1, 0.1, 9, 1.0, True, 100.0, ours=ours), 100.0)
    page = _status(pool).replicas()[0]

    assert (page["inflight"], page["inflight_elsewhere"], page["decoding"]) == (1, 2, 0)


def test_a_server_that_never_answered_is_listed_with_its_fault() -> None:
    """It has no replica yet, and people look for it."""
    pool = ReplicaPool()
    pool.reconcile(parse_servers("a=http://a:1"))

    assert _status(pool).replicas() == [
        {
            "id": "a",
            "url": "http://a:1",
            "healthy": False,
            "fault": "not probed yet",
            "held_back": False,
            "draining": False,
            "drained": False,
        },
    ]


def test_a_drained_replica_stays_listed_with_what_runs() -> None:
    """Draining while a request runs there, then drained."""
    pool = a_pool("a=http://a:1")
    (server,), (replica,) = pool.servers, pool.replicas
    running = InFlight(0.1, 0.1, 9, 1.0, True, 100.0)
    replica.workload.dispatch(running, 100.0)
    pool.set_drained(["a"])
    before = _status(pool).replicas()[0]
    replica.workload.end(running)
    pool.settle_drain(server)
    after = _status(pool).replicas()[0]

    assert [(page["draining"], page["drained"], page["inflight"]) for page in (before, after)] == [
        (True, False, 1),
        (True, True, 0),
    ]


def test_a_stalled_server_shows() -> None:
    """A request waits there for seventy seconds without a byte."""
    pool = a_pool()
    next(iter(pool.servers)).sent(30.0)

    assert [page["stalled"] for page in _status(pool).replicas()] == [True, False]


def test_without_events_it_says_off() -> None:
    """Not followed is a state of its own."""
    assert _status(a_pool()).replicas()[0]["events"] == {"state": "off"}
