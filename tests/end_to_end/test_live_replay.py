"""A replay tells what a running gateway does: the same requests offline and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count, pairwise
from random import Random

from loadtest.live.agreement import Pair, kendall
from loadtest.live.live_run import play_live
from loadtest.live.live_slice import LiveSlice
from loadtest.replay.figures import Figures
from loadtest.replay.run import replay
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.replay.trace import Session, Trace, Turn
from tests.end_to_end.live_gateways import LiveGateways

#: With their options: a slow machine is not a busy fleet, which sessions are moved for.
STRATEGIES: Mapping[str, Mapping[str, object]] = {"round_robin": {}, "session": {"slack_s": 600.0}, "kv_aware": {}}
TASKS, CHATS, TURNS = 7, 4, 3
TASK_BLOCKS, TURN_BLOCKS = 30, 3
NEAR = 0.06


def chats() -> Trace:
    """Several chats on each of several tasks, one after the other; the tasks take turns in changing order.

    Nobody waits for answers, so that requests come in the same order however slow the machine is.
    """
    rng, ids, sessions = Random(2), count(), list[Session]()
    tasks = [[next(ids) for _ in range(TASK_BLOCKS)] for _ in range(TASKS)]
    for chat in range(CHATS):
        prompts = [list(task) for task in tasks]
        for _ in range(TURNS):
            for task in rng.sample(range(TASKS), TASKS):
                prompts[task] += [next(ids) for _ in range(TURN_BLOCKS)]
                turn = Turn(len(prompts[task]) * 512 + 100, 200, tuple(prompts[task]))
                sessions.append(Session(f"chat {chat} on {task}", float(len(sessions)), (turn,)))
    return Trace("chats", 512, sessions)


def a_slice() -> LiveSlice:
    engine = EngineOptions(l0_blocks=120)  # four tasks' worth: some are evicted
    scenario = Scenario(replicas=4, engine=engine, load=0.1, event_delay_s=0.005)
    return LiveSlice.of(chats(), scenario, seed=1, time_scale=0.05)


async def compared(live: LiveSlice, strategy: str, all_started: asyncio.Barrier) -> Pair:
    options = STRATEGIES[strategy]

    @asynccontextmanager
    async def start(targets: Sequence[str], strategy: str) -> AsyncIterator[str]:
        async with LiveGateways(live.gateway_settings(), options).start(targets, strategy) as url:
            await all_started.wait()
            yield url

    outcome = await play_live(live, strategy, start)
    assert len(outcome.served) == live.trace.requests
    offline = replay(live.trace, live.scenario, strategy, options=options, seed=1)
    return Pair(strategy, Figures.of(outcome), [Figures.of(offline)])


async def test_a_running_gateway_finds_what_the_replay_says() -> None:
    """Hit shares are alike, and strategies stand in the same order by them. Each has replicas and a gateway of its own,
    at the same time: that spares half of the waiting.
    """
    live, all_started = a_slice(), asyncio.Barrier(len(STRATEGIES))

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(compared(live, strategy, all_started)) for strategy in STRATEGIES]
    pairs = [task.result() for task in running]

    found = {pair.strategy: (pair.live.hit, pair.offline[0].hit) for pair in pairs}
    assert all(abs(real - replayed) < NEAR for real, replayed in found.values()), found
    assert kendall([real for real, _ in found.values()], [replayed for _, replayed in found.values()]) == 1.0, found
    best = sorted(replayed for _, replayed in found.values())
    assert all(higher - lower > 2 * NEAR for lower, higher in pairwise(best)), found
