"""A simulated replica in simulated time: it takes as long as the simulated vLLM server, step for step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kv.tiers import Tier
from loadtest.replay.agenda import Agenda
from loadtest.replay.engine import Engine, Job
from loadtest.replay.lower_tier import LowerTier
from loadtest.replay.scenario import EngineOptions
from loadtest.replay.trace import Turn
from loadtest.replica.block_cache import BlockCache
from loadtest.replica.scheduler import Generation, Scheduler, Speeds

BLOCK = 16
SPEEDS = Speeds(chunk_tokens=256, max_running=4)


class House:
    """One engine, and what came of the requests it was given."""

    def __init__(self, options: EngineOptions, speed: float = 1.0, storage: LowerTier | None = None) -> None:
        self.agenda = Agenda()
        self.told: list[tuple[Tier, list[int], list[int]]] = []
        self.first_tokens: dict[int, float] = {}
        self.ends: dict[int, float] = {}
        self.engine = Engine(
            0,
            options,
            block_tokens=BLOCK,
            speed=speed,
            agenda=self.agenda,
            storage=storage or LowerTier(options.l2_blocks),
            publish=self._published,
        )

    def _published(self, _: int, tier: Tier, stored: Sequence[int], removed: Sequence[int]) -> None:
        self.told.append((tier, list(stored), list(removed)))

    def ask(self, number: int, at_s: float, turn: Turn) -> Job:
        job = Job(
            turn,
            lambda: self.first_tokens.__setitem__(number, self.agenda.now),
            lambda: self.ends.__setitem__(number, self.agenda.now),
        )
        self.agenda.at(at_s, lambda: self.engine.submit(job))
        return job


def turn_of(tokens: int, output: int = 1, family: int = 0) -> Turn:
    return Turn(tokens, output, [family * 1000 + place for place in range(tokens // BLOCK)])


def as_the_server(asked: Sequence[tuple[float, Turn, int]], capacity: int) -> tuple[dict[int, float], dict[int, float]]:
    """First tokens and ends by the simulated server's own scheduler, its steps taken one by one."""
    scheduler = Scheduler(BlockCache(capacity, BLOCK), SPEEDS, lambda _: None)
    generations = [
        Generation(
            prompt=[family * 100_000 + token for token in range(turn.prompt_tokens)], answer=[7] * turn.output_tokens
        )
        for _, turn, family in asked
    ]
    firsts, ends, now = dict[int, float](), dict[int, float](), 0.0
    waiting = sorted(range(len(asked)), key=lambda number: asked[number][0])
    while waiting or scheduler.waiting or scheduler.running:
        if not scheduler.waiting and not scheduler.running:
            now = max(now, asked[waiting[0]][0])
        while waiting and asked[waiting[0]][0] <= now:
            number = waiting.pop(0)
            scheduler.submit(generations[number], now=now)
        shares = scheduler.schedule()
        now += scheduler.step_s(shares)
        scheduler.complete(shares, now=now)
        for number, generation in enumerate(generations):
            if generation.generated:
                firsts.setdefault(number, now)
            if generation.is_done:
                ends.setdefault(number, now)
    return firsts, ends


arrivals = st.lists(
    st.tuples(st.floats(0, 0.5), st.integers(1, 900), st.integers(1, 40), st.integers(0, 2)), min_size=1, max_size=8
)


@settings(max_examples=60)
@given(arrivals)
def test_it_takes_as_long_as_the_simulated_server(rows: list[tuple[float, int, int, int]]) -> None:
    asked = [(at_s, turn_of(tokens, output, family), family) for at_s, tokens, output, family in rows]
    house = House(EngineOptions(l0_blocks=4000, speeds=SPEEDS))
    for number, (at_s, turn, _) in enumerate(asked):
        house.ask(number, at_s, turn)
    house.agenda.run()
    firsts, ends = as_the_server(asked, 4000)
    assert house.first_tokens == pytest.approx(firsts)
    assert house.ends == pytest.approx(ends)


def test_a_cached_prompt_computes_only_what_is_left() -> None:
    house = House(EngineOptions(l0_blocks=100, speeds=SPEEDS))
    house.ask(0, 0.0, turn_of(160))
    second = house.ask(1, 10.0, turn_of(200))
    house.agenda.run()
    assert (second.l0_tokens, second.cached_tokens) == (160, 160)
    took_s = SPEEDS.step_s + SPEEDS.sequence_s + SPEEDS.prefill_s(160, 40)
    assert house.first_tokens[1] == pytest.approx(10.0 + took_s)
    assert house.engine.alone_s(second) == pytest.approx(took_s, rel=0.02)


def test_the_block_of_the_last_token_is_computed_again() -> None:
    house = House(EngineOptions(l0_blocks=100, speeds=SPEEDS))
    house.ask(0, 0.0, turn_of(160))
    second = house.ask(1, 10.0, turn_of(160))
    house.agenda.run()
    assert second.l0_tokens == 144


def test_a_slower_replica_takes_as_much_longer() -> None:
    ends = []
    for speed in (1.0, 0.5):
        house = House(EngineOptions(l0_blocks=1000, speeds=SPEEDS), speed)
        house.ask(0, 0.0, turn_of(500, 20))
        house.agenda.run()
        ends.append(house.ends[0])
    assert ends[1] == pytest.approx(2 * ends[0])


def test_what_host_memory_keeps_is_loaded_and_told_of() -> None:
    options = EngineOptions(l0_blocks=12, l1_blocks=100, l1_tokens_s=1000.0, speeds=SPEEDS)
    house = House(options)
    house.ask(0, 0.0, turn_of(160))
    house.ask(1, 10.0, turn_of(160, family=1))
    third = house.ask(2, 20.0, turn_of(170))
    house.agenda.run()
    assert (third.l0_tokens, third.l1_tokens) == (16, 144)
    took_s = SPEEDS.step_s + SPEEDS.sequence_s + SPEEDS.prefill_s(160, 10) + 144 / 1000.0
    assert house.first_tokens[2] == pytest.approx(20.0 + took_s)
    assert (Tier.L1, list(range(10)), []) in house.told


def test_what_another_replica_computed_is_loaded_from_shared_storage() -> None:
    storage = LowerTier(100)
    options = EngineOptions(l0_blocks=100, l2_blocks=100, speeds=SPEEDS)
    first, second = House(options, storage=storage), House(options, storage=storage)
    first.ask(0, 0.0, turn_of(160))
    first.agenda.run()
    job = second.ask(0, 0.0, turn_of(170))
    second.agenda.run()
    assert (job.l0_tokens, job.l1_tokens, job.l2_tokens) == (0, 0, 160)
    took_s = SPEEDS.step_s + SPEEDS.sequence_s + SPEEDS.prefill_s(160, 10) + 0.1 + 160 / 34_000
    assert second.first_tokens[0] == pytest.approx(took_s)


def test_who_finds_no_room_waits_for_an_end() -> None:
    house = House(EngineOptions(l0_blocks=12, speeds=replace(SPEEDS, max_running=8)))
    house.ask(0, 0.0, turn_of(160, 30))
    house.ask(1, 0.0, turn_of(160, 30, family=1))
    house.agenda.run()
    assert house.first_tokens[1] > house.ends[0]


def test_what_waits_and_is_computed_is_counted_until_it_is_done() -> None:
    house = House(EngineOptions(l0_blocks=100, speeds=SPEEDS))
    seen: list[int] = []
    house.ask(0, 0.0, turn_of(500, 4))
    house.agenda.at(0.001, lambda: seen.append(house.engine.queued_tokens))
    house.agenda.run()
    assert (seen, house.engine.queued_tokens) == ([500], 0)
    assert (house.engine.waiting, house.engine.running, house.engine.kv_usage) == (0, 0, 0.0)
