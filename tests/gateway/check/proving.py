"""Simulated replicas, and what ``prefixway check`` puts together to look at them, in the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from gateway.check.knowledge import Knowledge
from gateway.check.replica_caller import ReplicaCaller
from gateway.check.verdict import Verdict
from gateway.check_run import CheckRun, check_run
from gateway.fleet.replica import Replica
from gateway.kv.trust import FeedState
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds
from tests.fakes.waiting import eventually

FAST = Speeds(prefill_tokens_per_s=200_000, step_s=0.001, chunk_tokens=4096)


class Proving:
    """``sims`` are the replicas as they are, ``replicas`` as they are seen; both by id."""

    def __init__(self, run: CheckRun, sims: dict[str, SimulatedReplica], caller: ReplicaCaller) -> None:
        self.run = run
        self.sims = sims
        self.caller = caller

    @property
    def knowledge(self) -> Knowledge:
        return self.run.knowledge

    @property
    def impatient(self) -> Knowledge:
        """The same, for checks of a replica that will not have less to do."""
        return replace(self.knowledge, patience_s=0.1)

    @property
    def replicas(self) -> dict[str, Replica]:
        return {replica.id: replica for replica in self.run.pool.replicas}

    async def check(self) -> dict[str, set[str]]:
        """The names of all findings, by replica."""
        found: dict[str, set[str]] = {}
        for verdict in await self.run.check(lambda _: None):
            if verdict.finding is not None:
                found.setdefault(verdict.finding.replica_id, set()).add(verdict.word)
        return found


def words(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Each check's verdict in a word."""
    return {verdict.check: verdict.word for verdict in verdicts}


@asynccontextmanager
async def proving(*options: ReplicaOptions, settled: bool = True, **settings: str) -> AsyncIterator[Proving]:
    """Replicas a, b, ... with these options. ``settled``: wait until all are seen as a whole."""
    async with AsyncExitStack() as stack:
        sims = {
            name: await stack.enter_async_context(SimulatedReplica(given))
            for name, given in zip("abcdef", options or (ReplicaOptions(speeds=FAST),))
        }
        given = {
            "PREFIXWAY_REPLICAS": ",".join(f"{name}={sim.url}" for name, sim in sims.items()),
            "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
            **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
        }
        run = await stack.enter_async_context(check_run(Settings.from_env(given), patience_s=3.0))
        caller = await stack.enter_async_context(ReplicaCaller(timeout_s=5.0))
        if settled:
            await eventually(lambda: all(map(run.is_settled, run.pool.servers)))
        yield Proving(run, sims, caller)


def is_fresh(proven: Proving, name: str) -> bool:
    """Whether a replica's feed has caught up."""
    stats = proven.knowledge.stats(proven.replicas[name])
    return stats is not None and stats.state is FeedState.FRESH
