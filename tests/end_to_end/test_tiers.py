"""Host memory and shared storage, from simulated replicas' own events and caches to where requests go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import httpx
import pytest

from gateway.app import Gateway
from gateway.fleet.inflight import InFlight
from gateway.prompt.inference_request import InferenceRequest
from gateway.shared.load.peer_load import PeerLoad
from loadtest.replica import ReplicaOptions, SharedStorage, Speeds
from router_strategies import Candidate
from router_strategies._cost import Work, prefill_seconds
from tests.end_to_end.house import House, house
from tests.end_to_end.shared_house import shared_house, together
from tests.fakes.waiting import eventually

SPEEDS = Speeds(prefill_tokens_per_s=8_000)  # what a gateway assumes at first
LONG = Random(1).choices(range(300, 1000), k=2000)  # token ids
SHORT = LONG[:500]


def _receipt(answer: httpx.Response) -> tuple[str, str, dict[str, int]]:
    """Which replica, why, and the tokens of each kind."""
    headers = answer.headers
    matched = dict(part.split("=") for part in headers["x-prefixway-matched"].split(","))
    return headers["x-prefixway-replica"], headers["x-prefixway-reason"], {k: int(v) for k, v in matched.items()}


def _cached(answer: httpx.Response) -> int:
    tokens: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


def _metric(text: str, name: str) -> float:
    """A sample of /metrics by its name and labels."""
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"prefixway_{name} "))


async def _weighed(gateway: Gateway, prompt: Sequence[int]) -> dict[str, Candidate]:
    """How each replica looks to the strategy, for a prompt that comes now."""
    body = json.dumps({"model": "simulated", "prompt": list(prompt)}).encode()
    explanation = await gateway.router.explain(InferenceRequest.parse("completions", body))
    return {weighed.replica.id: weighed.candidate for weighed in explanation.candidates}


async def _until_it_is_events_business(gateway: Gateway, prompt: Sequence[int]) -> None:
    """For a moment after its end a prompt counts as held, whatever events tell."""

    async def is_expected() -> bool:
        candidates = (await _weighed(gateway, prompt)).values()
        return any(each.expected_tokens > each.l0_tokens + each.l1_tokens for each in candidates)

    async with asyncio.timeout(20):
        while await is_expected():  # noqa: ASYNC110 - time alone ends it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _busy(gateway: Gateway, id_: str, seconds: float) -> AsyncIterator[None]:
    """So much prefill is promised to a replica inside the block, as the gateway's books have it."""
    workload = next(each for each in gateway.pool.replicas if each.id == id_).workload
    inflight = InFlight(seconds, 0.0, 100, 1.0, True, float("inf"))
    workload.dispatch(inflight, 0.0)
    yield
    workload.end(inflight)


@pytest.mark.parametrize("tells_removals", [True, False])
async def test_host_memory_is_known_by_its_events_and_decides(tells_removals: bool) -> None:
    """A prompt's two chunks of 256 outlive its GPU blocks: the receipt, the answer's usage and the cost agree on them.

    The holder is chosen at the cost of loading them, and left when its queue costs more than they spare.
    """
    options = ReplicaOptions(speeds=SPEEDS, capacity_blocks=64, host_chunks=16, tells_host_removals=tells_removals)
    prompt = LONG[:600]
    async with house(["a", "b"], options) as home:
        holder, _, cold = _receipt(await home.complete(prompt))
        other = "ab".replace(holder, "")
        async with httpx.AsyncClient(base_url=home.replicas[holder].url, trust_env=False) as beside:
            body = {"prompt": LONG[980:2000], "model": "simulated", "max_tokens": 1}
            (await beside.post("/v1/completions", json=body)).raise_for_status()
        await eventually(home.events_settled)
        await _until_it_is_events_business(home.gateway, prompt)
        candidates, rates = await _weighed(home.gateway, prompt), home.gateway.router.speeds.rates
        seconds = {id_: candidate.prefill_s for id_, candidate in candidates.items()}
        async with _busy(home.gateway, holder, 3 * (seconds[other] - seconds[holder]) + 0.05):
            spilled = _receipt(await home.complete(prompt, max_tokens=1))
        async with _busy(home.gateway, other, 5.0):
            loaded = await home.complete(prompt)

    assert "l1" not in cold
    assert seconds[holder] == pytest.approx(prefill_seconds(Work(88, 512, from_l1=512), rates))
    assert seconds[other] == pytest.approx(prefill_seconds(Work(600, 0), rates))
    assert spilled == (other, "spill", {"prompt": 600, "l0": 0})
    assert _receipt(loaded) == (holder, "spill", {"prompt": 600, "l0": 0, "l1": 512})
    assert _cached(loaded) == 512


def _sharing(storage: SharedStorage) -> ReplicaOptions:
    return ReplicaOptions(speeds=SPEEDS, storage=storage)


async def _follow_up_of_a_busy_holder(home: House, prompt: Sequence[int], seconds: float) -> tuple[str, httpx.Response]:
    """The holder of a prompt that was asked once, and the answer to the same when it has so much to do."""
    holder, _, _ = _receipt((await home.complete(prompt, max_tokens=1)).raise_for_status())
    await eventually(home.events_settled)
    async with _busy(home.gateway, holder, seconds):
        return holder, await home.complete(prompt, max_tokens=1)


@pytest.mark.parametrize("l2", ["estimate", "off"])
async def test_a_busy_holders_long_prompt_is_loaded_elsewhere(l2: str) -> None:
    """0.65 s of work: more than loading 1,792 tokens costs another replica, and less than computing 2,000."""
    async with house(["a", "b"], _sharing(SharedStorage()), l2=l2) as home:
        holder, answer = await _follow_up_of_a_busy_holder(home, LONG, 0.65)
        replica, reason, matched = _receipt(answer)
        metrics = await home.metrics()
        status = (await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/status")).json()
        truth = next(each["truth"] for each in status["replicas"] if each["id"] == replica)

    names = ["l2_estimated_tokens_total"]
    names += [f'l2_estimated_tokens_compared_total{{side="{side}"}}' for side in ("estimated", "actual")]
    counted = [_metric(metrics, name) for name in names]
    if l2 == "off":
        assert (replica, reason, matched) == (holder, "prefix", {"prompt": 2000, "l0": 1984})
        assert (counted, "l2" in status["index"]) == ([0, 0, 0], False)
        return
    assert replica != holder
    assert (reason, matched) == ("spill", {"prompt": 2000, "l0": 0, "l2_estimate": 1792})
    assert _cached(answer) == 1792
    assert counted == [1792, 1792, 1792]
    assert truth["l2_estimate"] == {"tokens": 1792, "compared_tokens": 1792, "found_tokens": 1792}
    assert (truth["accuracy"]["predicted_tokens"]["usage"], truth["accuracy"]["under_tokens"]) == (0, 0)
    assert status["index"]["l2"]["kind"] == "estimate"
    assert _metric(metrics, "l2_estimated_chunks") == 7


async def test_an_estimate_that_does_not_hold_is_seen() -> None:
    """Storage that keeps nothing: tokens estimated, none found. Trust in the events is what it was."""
    options = ReplicaOptions(speeds=SPEEDS)
    async with house(["a", "b"], options, l2="estimate") as home:
        _, answer = await _follow_up_of_a_busy_holder(home, LONG, 0.65)
        metrics = await home.metrics()

    assert (_receipt(answer)[2]["l2_estimate"], _cached(answer)) == (1792, 0)
    assert _metric(metrics, 'l2_estimated_tokens_compared_total{side="estimated"}') == 1792
    assert _metric(metrics, 'l2_estimated_tokens_compared_total{side="actual"}') == 0
    assert _metric(metrics, "l2_estimate_holds") == pytest.approx(20_000 / 21_792, abs=0.01)
    assert [_metric(metrics, f'replica_trust{{replica="{id_}"}}') for id_ in "ab"] == [1, 1]


async def test_a_short_prompt_gets_no_credit_from_shared_storage() -> None:
    """500 tokens, and a holder with work for 0.1 s: it stays. With 0.5 s it is computed elsewhere, and nothing else is
    said of it.
    """
    receipts = []
    for seconds in (0.1, 0.5):
        async with house(["a", "b"], _sharing(SharedStorage()), l2="estimate") as home:
            holder, answer = await _follow_up_of_a_busy_holder(home, SHORT, seconds)
            replica, reason, matched = _receipt(answer)
            receipts.append((replica == holder, reason, matched))

    assert receipts[0] == (True, "prefix", {"prompt": 500, "l0": 496})
    assert receipts[1] == (False, "spill", {"prompt": 500, "l0": 0})


def _peer_load(gateway: Gateway) -> PeerLoad:
    peer_load = together(gateway).peer_load
    assert peer_load is not None
    return peer_load


async def test_what_one_gateway_saw_finished_another_estimates() -> None:
    """Over the messages by which they tell each other their load."""
    options = replace(_sharing(SharedStorage()), kv_events=False)
    async with shared_house([{"l2": "estimate"}] * 2, ids="ab", options=options) as home:
        two = home.gateways[1]
        await eventually(lambda: [peer_load.stats.peers for peer_load in map(_peer_load, home.gateways)] == [1, 1])
        body = {"model": "simulated", "prompt": LONG, "max_tokens": 1}
        first = (await home.clients[0].post("/v1/completions", json=body)).raise_for_status()
        estimate = two.fellowship.budget.l2
        assert estimate is not None
        await eventually(lambda: estimate.chunks == 7)
        async with _busy(two, _receipt(first)[0], 5.0):
            answer = await home.clients[1].post("/v1/completions", json=body)

    assert (_receipt(answer)[2]["l2_estimate"], _cached(answer)) == (1792, 1792)
