"""What the probes know: each state of a server and of its metrics has its verdict."""

from __future__ import annotations

from gateway.check.state_check import block_sizes, check_metrics, check_server
from gateway.fleet.load_report import LoadReport
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, proving, words


async def test_a_healthy_replica_is_fine() -> None:
    async with proving(ReplicaOptions(speeds=FAST, loras=("ada",))) as proven:
        replica = proven.replicas["a"]

        assert words([*check_server(replica.server), *check_metrics(replica)]) == {
            "reachable": "ok",
            "model": "ok",
            "metrics": "ok",
        }


async def test_a_server_that_is_not_well_is_unreachable() -> None:
    async with proving(settled=False) as proven:
        proven.sims["a"].faults.health_status = 500
        server = next(iter(proven.run.pool.servers))
        await eventually(lambda: "500" in server.fault)

        assert words([*check_server(server)]) == {"reachable": "unreachable"}


async def test_a_server_asleep_is_not_called_unreachable() -> None:
    async with proving() as proven:
        server = proven.replicas["a"].server
        server.slept(True)

        assert words([*check_server(server)]) == {"reachable": "asleep"}
        assert proven.run.is_settled(server)


async def test_a_server_without_a_model_and_metrics_without_names_are_told() -> None:
    async with proving() as proven:
        replica = proven.replicas["a"]
        replica.server.cards = ()
        replica.report = LoadReport(running=1.0, prefix_caching=False)

        assert words([*check_server(replica.server)])["model"] == "no_model"
        assert words([*check_metrics(replica)]) == {
            "metrics": "metrics_unknown",
            "prefix_caching": "prefix_caching_off",
        }


async def test_older_names_of_metrics_are_known() -> None:
    async with proving(ReplicaOptions(speeds=FAST, metrics_dialect="0.8")) as proven:
        assert words([*check_metrics(proven.replicas["a"])]) == {"metrics": "ok"}


async def test_blocks_of_two_sizes_are_told_once_both_are_known() -> None:
    async with proving() as proven:
        replica = proven.replicas["a"]
        assert block_sizes(replica, proven.knowledge).word == "skipped"
        await proven.caller.complete(replica, "simulated", [*range(300, 340)])
        await eventually(lambda: block_sizes(replica, proven.knowledge).word == "ok")

        proven.sims["a"].silent.claimed_block_size = 32

        await eventually(lambda: block_sizes(replica, proven.knowledge).word == "block_size_differs")
