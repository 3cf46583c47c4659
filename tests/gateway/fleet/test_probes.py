"""Probes against simulated replicas: health, models, metrics, event sources, keys."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx
import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.inflight import InFlight
from gateway.fleet.model_card import parse_models
from gateway.fleet.probes import strangeness
from gateway.fleet.replica import Replica
from gateway.fleet.server_spec import ServerSpec, parse_servers
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.fakes.scripted_server import Script, ScriptedServer, Wire, answer
from tests.fakes.waiting import eventually
from tests.gateway.fleet.probing import pool_of, probing


@pytest.mark.parametrize("dialect", ["0.32", "0.8"])
async def test_a_replica_is_learned(dialect: Any) -> None:
    """Healthy, its model, its block size and capacity, under current and older metric names."""
    async with SimulatedReplica(ReplicaOptions(metrics_dialect=dialect, capacity_blocks=300)) as simulated:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.healthy and server.replicas and server.replicas[0].reported_s)
        (replica,) = server.replicas

    assert server.namespace == "simulated"
    assert (replica.report.block_size, replica.report.running) == (16, 0)
    assert replica.kv_blocks >= 300
    assert replica.report.kv_usage is not None


async def test_event_sources_need_no_setting() -> None:
    """/kv_event_sources gives each rank's ports, made connectable."""
    async with SimulatedReplica(ReplicaOptions(ranks=2)) as simulated:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: len(server.replicas) == 2)

    assert [server.event_sources[r.key.rank].endpoint for r in server.replicas] == [
        rank.publisher.endpoint for rank in simulated.ranks
    ]


async def test_an_older_replica_gets_the_settings_source() -> None:
    """Without /kv_event_sources the fleet's default is used; what the spec says beats both."""
    options = ReplicaOptions(lists_event_sources=False)
    async with SimulatedReplica(options) as older, SimulatedReplica() as newer:
        pool = pool_of(f"old={older.url}", f"new={newer.url}?events=tcp://{{host}}:5&replay=tcp://{{host}}:6")

        def default(spec: ServerSpec, rank: int) -> EventSource:
            return EventSource(f"tcp://{spec.origin.host}:{5557 + rank}")

        async with probing(pool, sources=default):
            await eventually(lambda: all(server.replicas for server in pool.servers))
        sources = {server.id: server.event_sources for server in pool.servers}

    assert sources["old"] == {0: EventSource("tcp://127.0.0.1:5557")}
    assert sources["new"] == {0: EventSource("tcp://127.0.0.1:5", "tcp://127.0.0.1:6")}


async def test_a_black_hole_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """One server accepts and never answers: the other is healthy, and the log has one line about each change."""
    caplog.set_level(logging.INFO)
    async with SimulatedReplica() as simulated, ScriptedServer(Wire.until_gone) as hole:
        pool = pool_of(f"hole={hole.origin.url}", f"good={simulated.url}")
        good = pool.server("good")
        assert good is not None
        async with probing(pool):
            await eventually(lambda: good.healthy)
            await simulated.refuse()
            await eventually(lambda: not good.healthy)
            await simulated.accept()
            await eventually(lambda: good.healthy)

    lines = [record.message for record in caplog.records if record.name == "gateway.fleet.probes"]
    assert [line for line in lines if "good" in line] == [
        "replica good is healthy",
        "replica good is down: /health: ConnectError: All connection attempts failed",
        "replica good is healthy",
    ]


async def test_many_black_holes_delay_nobody() -> None:
    """150 servers that accept and never answer: a good one is found, and stays healthy round after round."""
    async with SimulatedReplica() as simulated, ScriptedServer(Wire.until_gone) as hole:
        holes = [f"hole{number}={hole.origin.url}" for number in range(150)]
        pool = pool_of(*holes, f"good={simulated.url}")
        good = pool.server("good")
        assert good is not None
        faults: list[str] = []
        async with probing(pool):
            await eventually(lambda: good.healthy)
            seen = len(simulated.requests)

            def watch() -> bool:
                faults.append(good.fault)
                return len(simulated.requests) > seen + 100

            await eventually(watch)

    assert set(faults) == {""}


async def test_a_new_process_is_noticed() -> None:
    """The start time on /metrics changes with the process."""
    async with SimulatedReplica() as simulated:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.process_start_s)
            first = server.process_start_s
            await simulated.restart()
            await eventually(lambda: server.process_start_s != first)


async def test_probes_leave_the_books_alone() -> None:
    """Ten requests are on their way to a replica, and still are after twenty rounds of probes."""
    async with SimulatedReplica() as simulated:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.replicas and server.replicas[0].reported_s)
            (replica,) = server.replicas
            for _ in range(10):
                replica.workload.dispatch(
                    InFlight(1.0, 1.0, 500, 2.0, streamed=True, dispatched_s=monotonic()), monotonic()
                )
            asked = len(simulated.requests)
            await eventually(lambda: len(simulated.requests) > asked + 60)
            (replica,) = server.replicas

    assert (replica.workload.inflight, replica.workload.pending_tokens) == (10, 5_000)


async def test_a_server_that_left_is_probed_no_more() -> None:
    """After the fleet shrank its pages are not asked again."""
    async with SimulatedReplica() as one, SimulatedReplica() as two:
        pool = pool_of(f"one={one.url}", f"two={two.url}")
        async with probing(pool):
            await eventually(lambda: all(server.healthy for server in pool.servers))
            pool.reconcile(parse_servers(f"one={one.url}"))
            await eventually(lambda: len(one.requests) % 2 == 0)
            count, seen = len(one.requests), len(two.requests)
            await eventually(lambda: len(one.requests) > count + 40)

    assert len(two.requests) <= seen + 4  # a round that was under way


async def test_every_probe_carries_our_key_and_a_wrong_one_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A replica that guards all but /health: with the key it is learned, with another the log says so, once."""

    async def guarded(wire: Wire) -> None:
        page = wire.request.line.split(b" ")[1]
        known = wire.request.values("authorization") == [b"Bearer right"]
        if page == b"/health":
            await wire.send(answer(b""))
        elif not known:
            await wire.send(answer(b"{}", status="401 Unauthorized"))
        else:
            await wire.send(answer(b'{"data": [{"id": "m"}]}' if page == b"/v1/models" else b"{}"))

    async with ScriptedServer(guarded) as server:
        pool = pool_of(server.origin.url)
        (probed,) = pool.servers
        async with probing(pool, api_key="wrong"):
            await eventually(lambda: len(server.requests) > 20)
        refusals = [record.message for record in caplog.records if record.levelname == "ERROR"]
        async with probing(pool, api_key="right"):
            await eventually(lambda: probed.namespace == "m")

    assert len([line for line in refusals if "/v1/models with 401: is PREFIXWAY_REPLICA_API_KEY right?" in line]) == 1
    assert not [line for line in refusals if "wrong" in line]


async def test_ranks_are_known_without_their_events() -> None:
    """A server that does not list event sources still shows its ranks on /metrics; both ports grow with the rank."""
    options = ReplicaOptions(ranks=2, lists_event_sources=False)
    async with SimulatedReplica(options) as simulated:
        pool = pool_of(f"a={simulated.url}?events=tcp://{{host}}:5&replay=tcp://{{host}}:105")
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: len(server.replicas) == 2)

    assert [replica.id for replica in server.replicas] == ["a", "a#1"]
    assert server.event_sources[1] == EventSource("tcp://127.0.0.1:6", "tcp://127.0.0.1:106")


async def test_events_that_are_not_wanted_are_not_looked_for() -> None:
    """Off is off, whatever a replica or its configuration says."""
    async with SimulatedReplica() as simulated:
        pool = pool_of(f"{simulated.url}?events=tcp://{{host}}:5")
        (server,) = pool.servers
        async with probing(pool, sources=None):
            await eventually(lambda: server.healthy)

    assert server.event_sources == {}
    assert not [request for request in simulated.requests if "kv_event" in request.target]


async def test_an_engine_that_sleeps_gets_no_requests_until_it_wakes() -> None:
    """It says so itself, and answers its probes all the while."""
    async with SimulatedReplica() as simulated, httpx.AsyncClient(base_url=simulated.url, trust_env=False) as client:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        emptied: list[Replica] = []
        pool.listen_to_resets(emptied.append)
        async with probing(pool):
            await eventually(lambda: server.is_ready(0.0))
            await client.post("/sleep?level=1")
            await eventually(lambda: server.asleep)
            assert (server.is_ready(0.0), server.fault) == (False, "asleep")
            assert emptied
            emptied.clear()
            await client.post("/wake_up")
            await eventually(lambda: server.is_ready(0.0))
            assert emptied


async def test_a_reset_that_went_past_us_is_noticed() -> None:
    """By the server's own count of what it was asked."""
    async with SimulatedReplica() as simulated, httpx.AsyncClient(base_url=simulated.url, trust_env=False) as client:
        pool = pool_of(simulated.url)
        (server,) = pool.servers
        emptied: list[Replica] = []
        pool.listen_to_resets(emptied.append)
        async with probing(pool):
            await eventually(lambda: server.replicas and server.replicas[0].reported_s)
            await client.post("/reset_prefix_cache")
            await eventually(lambda: emptied)

    assert emptied == server.replicas


async def test_a_new_process_is_noticed_though_it_does_not_tell_its_start() -> None:
    """Its counters begin again."""
    counts = iter([b"7", b"9", b"9"])
    restarted: list[Replica] = []

    async def pages(wire: Wire) -> None:
        is_metrics = wire.request.line.split(b" ")[1] == b"/metrics"
        text = b"vllm:generation_tokens_total %b\n" % next(counts, b"2") if is_metrics else b"{}"
        await wire.send(answer(text))

    class Listener:
        def joined(self, replica: Replica, source: EventSource | None) -> None: ...

        def left(self, replica: Replica) -> None: ...

        def process_changed(self, replica: Replica) -> None:
            restarted.append(replica)

    async with ScriptedServer(pages) as scripted:
        pool = pool_of(scripted.origin.url)
        pool.listen(Listener())
        async with probing(pool):
            await eventually(lambda: restarted)

    assert restarted == list(pool.replicas)


def _engine(models: Callable[[], object]) -> Script:
    """Well, and with these models; ``None``: they are not told."""

    async def pages(wire: Wire) -> None:
        if wire.request.line.split(b" ")[1] != b"/v1/models":
            await wire.send(answer(b"{}"))
        elif (told := models()) is None:
            await wire.send(answer(b"{}", status="401 Unauthorized"))
        else:
            await wire.send(answer(json.dumps({"data": told}).encode()))

    return pages


async def test_a_server_that_serves_another_model_than_was_meant_is_not_healthy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a pod may that has the address of one that is gone. At once, told once, and nothing is learned of it."""
    told: list[object] = [[{"id": "ours"}, {"id": "adapter", "parent": "ours"}]]
    async with ScriptedServer(_engine(lambda: told[0])) as engine:
        pool = pool_of(f"a={engine.origin.url}?model=ours")
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.healthy)
            told[0] = [{"id": "theirs"}]
            await eventually(lambda: not server.healthy)
            count = len(engine.requests)
            await eventually(lambda: len(engine.requests) > count + 10)
            stranger = (server.fault, server.serves("ours"), server.serves("theirs"))
            told[0] = [{"id": "ours"}]
            await eventually(lambda: server.healthy)

    assert stranger == ("serves theirs, not ours", True, False)
    assert [m for m in caplog.messages if "meant" in m] == [
        "replica a is not the one that was meant: it serves theirs, not ours"
    ]


async def test_one_that_was_shown_to_be_another_is_not_acquitted_by_a_page_that_fails() -> None:
    """Nor by one that fails after an outage: only by a page that names what was meant."""
    told: list[object] = [[{"id": "theirs"}]]
    well = [True]

    async def pages(wire: Wire) -> None:
        if well[0]:
            await _engine(lambda: told[0])(wire)

    async with ScriptedServer(pages) as engine:
        pool = pool_of(f"a={engine.origin.url}?model=ours")
        (server,) = pool.servers

        async def seen_again() -> None:
            count = len(engine.requests)
            await eventually(lambda: len(engine.requests) > count + 10)

        async with probing(pool):
            await eventually(lambda: server.fault == "serves theirs, not ours")
            told[0] = None
            await seen_again()
            refuted = (server.healthy, server.fault)
            well[0] = False
            await eventually(lambda: server.fault.startswith("/health"))
            well[0] = True
            await seen_again()
            after_outage = (server.healthy, server.fault)
            told[0] = [{"id": "ours"}]
            await eventually(lambda: server.healthy)

    assert refuted == after_outage == (False, "serves theirs, not ours")


async def test_an_adapter_that_is_loaded_later_is_served_until_it_is_unloaded() -> None:
    """By the same replica as before."""
    base, adapter = {"id": "base"}, {"id": "adapter", "parent": "base"}
    told = [[base]]
    async with ScriptedServer(_engine(lambda: told[0])) as engine:
        pool = pool_of(engine.origin.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.healthy)
            (replica,) = server.replicas
            told[0] = [base, adapter]
            await eventually(lambda: pool.names.knows("adapter"))
            routable = pool.routable("adapter", (), 0.0)
            told[0] = [base]
            await eventually(lambda: not pool.names.knows("adapter"))

    assert routable == server.replicas == [replica]


async def test_a_server_that_does_not_tell_its_models_may_be_the_one_that_was_meant() -> None:
    async with ScriptedServer(_engine(lambda: None)) as engine:
        pool = pool_of(f"a={engine.origin.url}?model=ours")
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.healthy)


def test_what_a_stranger_serves_is_told_in_short() -> None:
    cards = parse_models({"data": [{"id": name * 300} for name in "abcdef"]})

    assert strangeness("a" * 300, cards) == ""
    assert strangeness("x", ()) == "serves nothing, not x"
    assert len(strangeness("x" * 300, cards)) < 450
