"""One rank: cache, scheduler and publisher together."""

from __future__ import annotations

from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.scheduler import Generation
from tests.loadtest.replica.running import NO_TIME

ANSWER = [7, 8, 9]


async def answer(rank: EngineRank) -> list[int]:
    return [token async for token in rank.scheduler.generate(Generation(prompt=range(20), answer=ANSWER))]


async def test_publishes_what_it_computes_until_it_is_stopped() -> None:
    """And starts again with nothing, on the same ports."""
    rank = EngineRank(ReplicaOptions(speeds=NO_TIME), 0, "topic")
    await rank.start()
    endpoint = rank.publisher.endpoint
    assert await answer(rank) == ANSWER
    assert (rank.publisher.next_sequence, rank.load) == (1, 0)

    await rank.restart()

    assert rank.publisher.endpoint == endpoint
    assert (rank.publisher.next_sequence, len(rank.cache.resident_prefixes())) == (0, 0)
    assert await answer(rank) == ANSWER
    await rank.stop()


async def test_works_without_events() -> None:
    """No socket is opened, and the cache works all the same."""
    rank = EngineRank(ReplicaOptions(speeds=NO_TIME, kv_events=False), 0, "topic")
    await rank.start()
    assert await answer(rank) == ANSWER
    await rank.stop()

    assert rank.publisher.next_sequence == 0
    assert len(rank.cache.resident_prefixes()) == 1
