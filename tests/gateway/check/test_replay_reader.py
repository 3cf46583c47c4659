"""The replay, asked once."""

from __future__ import annotations

import pytest
import zmq

from gateway.check.replay_reader import read_replay
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import proving


async def test_it_brings_the_batches_from_a_number_on_and_no_more_than_asked_for() -> None:
    async with proving() as proven:
        publisher = proven.sims["a"].publisher
        for number in range(3):
            await proven.caller.complete(
                proven.replicas["a"], "simulated", [*range(300 + 20 * number, 340 + 20 * number)]
            )
        await eventually(lambda: publisher.next_sequence >= 3)
        endpoint = publisher.replay_endpoint or ""

        some = await read_replay(endpoint, 1, most=1, timeout_s=5.0)
        rest = await read_replay(endpoint, 1, most=100, timeout_s=5.0)

        assert [batch.sequence for batch in some.batches] == [1]
        assert [batch.sequence for batch in rest.batches] == [*range(1, publisher.next_sequence)]
        assert some.answered
        assert rest.answered


async def test_an_end_without_batches_is_an_answer_and_silence_is_none() -> None:
    async with proving() as proven:
        endpoint = proven.sims["a"].publisher.replay_endpoint or ""

        assert await read_replay(endpoint, 7, most=1, timeout_s=5.0) == ([], True)
        assert await read_replay("tcp://127.0.0.1:1", 0, most=1, timeout_s=0.05) == ([], False)


async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(zmq.ZMQError):
        await read_replay("nowhere", 0, most=1, timeout_s=1.0)
