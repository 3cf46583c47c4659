"""Simulated replicas under requests at random, and what is learned of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from gateway.fleet.inflight import InFlight, Workload
from gateway.fleet.prefill_sample import PrefillSample, PrefillWork
from gateway.fleet.rate_estimator import RateEstimator
from loadtest.replay.agenda import Agenda
from loadtest.replay.engine import Engine, Job
from loadtest.replay.lower_tier import LowerTier
from loadtest.replay.scenario import EngineOptions
from loadtest.replay.trace import Turn
from router_strategies._cost import Rates, Work

BLOCK_TOKENS = 512

#: Prompts: tokens that one of so many prefixes has, and tokens after it, from least to most.
Prompts = Callable[[Random], Turn]


def prompts(prefixes: int, prefix_blocks: int, least: int, most: int) -> Prompts:
    """Prompts that begin with one of ``prefixes`` and go on with ``least`` to ``most`` tokens of their own."""

    def one(random: Random) -> Turn:
        prefix, tail = random.randrange(prefixes), random.randint(least, most)
        blocks = [prefix * 1_000_000 + place for place in range(prefix_blocks)]
        blocks += [random.getrandbits(60) + 2**60 for _ in range(tail // BLOCK_TOKENS)]
        return Turn(prefix_blocks * BLOCK_TOKENS + tail, random.randint(20, 200), blocks)

    return one


class Regime(NamedTuple):
    """What is asked, how often, and of which engines."""

    prompts: Prompts
    gap_s: float
    options: EngineOptions


_BIG, _LOADING = EngineOptions(l0_blocks=2_000), EngineOptions(l0_blocks=200, l1_blocks=5_000, l1_tokens_s=15_000)
REGIMES: Mapping[str, Regime] = {
    "hits in L0": Regime(prompts(20, 8, 100, 3_000), 0.15, _BIG),
    "nearly all cached": Regime(prompts(20, 16, 20, 300), 0.08, _BIG),
    "only long prompts": Regime(prompts(10**6, 0, 20_000, 40_000), 2.5, _BIG),
    "slow loads from L1": Regime(prompts(60, 12, 100, 2_000), 0.2, _LOADING),
}


def error_of(estimator: RateEstimator, samples: list[PrefillSample]) -> float:
    """Of what it would have predicted, as a part of all seconds."""
    off_s = sum(abs(_predicted_s(estimator, sample) - sample.actual_s) for sample in samples)
    return off_s / sum(sample.actual_s for sample in samples)


def _predicted_s(estimator: RateEstimator, sample: PrefillSample) -> float:
    r = estimator.rates
    pair_s = 1 / r.prefill_tokens_s / r.doubling_tokens
    each = (1 / r.prefill_tokens_s, pair_s, r.step_s, 1 / r.l1_tokens_s, 1 / r.l2_tokens_s, r.decoding_s)
    return r.calibration * sum(amount * seconds for amount, seconds in zip(sample.amounts, each))


def samples_of(
    make: Prompts,
    *,
    count: int,
    gap_s: float,
    options: EngineOptions | None = None,
    speeds: tuple[float, ...] = (1.0, 1.0),
    told: tuple[float, ...] = (1.0, 1.0),
    streamed: float = 1.0,
    seed: int = 1,
) -> list[PrefillSample]:
    """What ``count`` requests teach, with random gaps of ``gap_s`` on average, each sent to the next of the replicas.

    ``speeds`` are true, ``told`` is what the gateway believes. What is cached is known exactly.
    """
    random, agenda, options = Random(seed), Agenda(), options or EngineOptions()
    engines = [
        Engine(
            number,
            options,
            block_tokens=BLOCK_TOKENS,
            speed=speed,
            agenda=agenda,
            storage=LowerTier(options.l2_blocks),
            publish=lambda *_: None,
        )
        for number, speed in enumerate(speeds)
    ]
    books, taught, at_s = [Workload() for _ in speeds], list[PrefillSample](), 0.0
    for number in range(count):
        place = number % len(speeds)
        sent = _Sent(engines[place], books[place], told[place], agenda, taught)
        turn, is_streamed = make(random), random.random() < streamed
        agenda.at(at_s, lambda sent=sent, turn=turn, is_streamed=is_streamed: sent.go(turn, is_streamed))  # type: ignore[misc]
        at_s += random.expovariate(1 / gap_s)
    agenda.run()
    return taught


class _Sent:
    """One request, from its dispatch to its end."""

    def __init__(
        self, engine: Engine, workload: Workload, speed: float, agenda: Agenda, taught: list[PrefillSample]
    ) -> None:
        self._engine, self._workload, self._speed, self._agenda = engine, workload, speed, agenda
        self._taught = taught

    def go(self, turn: Turn, streamed: bool) -> None:
        self._inflight = InFlight(turn.prompt_tokens / 8000, 0.001, turn.prompt_tokens, 1.0, streamed, self._agenda.now)
        self._job = Job(turn, self._first_token, self._finished)
        self._workload.dispatch(self._inflight, self._agenda.now)
        self._engine.submit(self._job)

    def _first_token(self) -> None:
        job = self._job
        if self._inflight.streamed:
            work = Work(job.turn.prompt_tokens - job.cached_tokens, job.cached_tokens, job.l1_tokens, job.l2_tokens)
            self._inflight.work = PrefillWork.of(work, Rates(l2_fixed_s=0.0), self._speed)
            self._heard()

    def _finished(self) -> None:
        self._heard()
        self._workload.end(self._inflight)

    def _heard(self) -> None:
        sample = self._workload.first_byte(self._inflight, self._agenda.now)
        if sample is not None:
            self._taught.append(sample)
