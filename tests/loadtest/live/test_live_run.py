"""A live run, with a proxy of a few lines for a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest

from loadtest.live.live_run import play_live
from loadtest.live.live_slice import LiveSlice
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica.http_server import ReceivedRequest, Responder
from tests.loadtest.small_proxy import small_proxy

TRACE = Trace(
    "t",
    512,
    [Session(str(number), float(number), (Turn(4 * 512 + 9, 50, (0, 1, 2, number + 3)),)) for number in range(8)],
)
SCENARIO = Scenario(replicas=2, engine=EngineOptions(l0_blocks=100), load=0.2, speeds=(1.0, 0.5))


def a_slice(time_scale: float = 0.02) -> LiveSlice:
    return LiveSlice.of(TRACE, SCENARIO, seed=1, time_scale=time_scale)


@asynccontextmanager
async def in_turn(targets: Sequence[str], strategy: str) -> AsyncIterator[str]:
    """One after the other; "broken" answers nothing, and "liar" tells of cached tokens that there are not."""
    urls = [target.partition("=")[2].partition("?")[0] for target in targets]
    asked = 0

    async def relay(client: httpx.AsyncClient, request: ReceivedRequest, responder: Responder) -> None:
        nonlocal asked
        number, asked = asked % len(urls), asked + 1
        if strategy == "broken":
            await responder.send(503, [], b"")
            return
        answer = await client.post(urls[number] + request.target, content=request.body)
        told = answer.content
        if strategy == "liar":
            told = told.replace(b'"cached_tokens":0', b'"cached_tokens":7')
        await responder.send(200, [("x-prefixway-replica", f"r{number}")], told)

    async with small_proxy(relay) as url:
        yield url


async def test_gives_an_outcome_like_a_replays() -> None:
    """In order of arrival; replicas by number; the first request at each finds nothing, others what is common."""
    outcome = await play_live(a_slice(), "any", in_turn, seed=3)

    assert (outcome.strategy, outcome.trace, outcome.seed, outcome.errors) == ("any", "t", 3, 0)
    assert [one.replica for one in outcome.served] == [0, 1] * 4
    assert [one.l0_tokens for one in outcome.served] == [0, 0, *[3 * 16] * 6]
    assert all(one.prompt_tokens == 64 for one in outcome.served)
    assert all(one.arrived_s < one.first_token_s <= one.finished_s for one in outcome.served)


async def test_a_slow_replica_is_slow_alone_too() -> None:
    """Half the speed: twice the seconds, of the same prefill, and no request is sooner than alone."""
    served = (await play_live(a_slice(0.3), "any", in_turn)).served

    assert served[1].alone_s == pytest.approx(2 * served[0].alone_s)
    assert all(one.ttft_s >= one.alone_s for one in served)


@pytest.mark.parametrize(
    ("strategy", "why"), [("broken", "8 requests failed.*503"), ("liar", "counted 288 .* told of 302")]
)
async def test_what_cannot_be_compared_is_an_error(strategy: str, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        await play_live(a_slice(), strategy, in_turn)
