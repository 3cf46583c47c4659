"""A live run: fresh replicas, a gateway that the caller starts, and a player; what came of it, as of a replay.

Does not know how a gateway is started: nothing here stands above the gateway's edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from math import ceil

from loadtest.demo import StartGateway
from loadtest.live.live_slice import MODEL, LiveSlice, replica_id
from loadtest.live.player import Answered, Player
from loadtest.replay.outcome import Outcome, Served
from loadtest.replica import SimulatedReplica


async def play_live(live: LiveSlice, strategy: str, start_gateway: StartGateway, *, seed: int = 0) -> Outcome:
    """Play the slice on empty caches. ``start_gateway`` gets replicas with ids and speeds, and ``strategy``; it waits
    until they are known. No decision is timed, and no queue is sampled.

    Raises ``RuntimeError`` where requests fail, or replicas counted other cached tokens than answers told.
    """
    options = live.replica_options()
    async with AsyncExitStack() as stack:
        replicas = []
        for number in range(live.scenario.replicas):
            replicas.append(await stack.enter_async_context(SimulatedReplica(options)))
            replicas[-1].scheduler.slowdown = 1 / live.scenario.speed(number)
        targets = [live.target(number, replica.url) for number, replica in enumerate(replicas)]
        base_url = await stack.enter_async_context(start_gateway(targets, strategy))
        player = Player(base_url, MODEL, replicas[0].folder.word_ids)
        await player.play(live.trace)
        _check(player, replicas)
    served = sorted(_served(one, live) for one in player.answered)
    return Outcome(strategy, live.trace.name, seed, served, [], len(served), 0.0)


def _check(player: Player, replicas: Sequence[SimulatedReplica]) -> None:
    if player.broken:
        raise RuntimeError(f"{len(player.broken)} requests failed, the first one with {player.broken[0].why}")
    told = sum(one.cached_tokens for one in player.answered)
    counted = sum(replica.scheduler.stats.hit_tokens for replica in replicas)
    if told != counted:
        raise RuntimeError(f"replicas counted {counted} cached tokens, and answers told of {told}")


def _served(one: Answered, live: LiveSlice) -> Served:
    replica = next(number for number in range(live.scenario.replicas) if replica_id(number) == one.replica)
    speeds, uncached = live.scenario.engine.speeds, one.turn.prompt_tokens - one.cached_tokens
    steps = max(1, ceil(uncached / speeds.chunk_tokens))
    alone_s = (speeds.prefill_s(one.cached_tokens, uncached) + steps * speeds.step_s) / live.scenario.speed(replica)
    return Served(
        arrived_s=one.arrived_s,
        first_token_s=one.first_token_s,
        finished_s=one.finished_s,
        replica=replica,
        prompt_tokens=one.turn.prompt_tokens,
        output_tokens=one.turn.output_tokens,
        l0_tokens=one.cached_tokens,
        l1_tokens=0,
        l2_tokens=0,
        alone_s=alone_s,
    )
