"""A gateway of ours in simulated time."""

from __future__ import annotations

import pytest

from gateway.kv.tiers import Tier
from loadtest.replay.agenda import Agenda
from loadtest.replay.chooser import Asked
from loadtest.replay.engine import Engine, Job
from loadtest.replay.lower_tier import LowerTier
from loadtest.replay.own_chooser import OwnChooser, rates_of
from loadtest.replay.scenario import EngineOptions, Scenario
from tests.loadtest.replay.examples import BLOCK, turn

SCENARIO = Scenario(replicas=2, engine=EngineOptions(l0_blocks=100), rate_error=2.0, speeds=(0.5,))


def engines_of(scenario: Scenario, agenda: Agenda) -> list[Engine]:
    return [
        Engine(
            number,
            scenario.engine,
            block_tokens=BLOCK,
            speed=1.0,
            agenda=agenda,
            storage=LowerTier(0),
            publish=lambda *_: None,
        )
        for number in range(scenario.replicas)
    ]


def gateway(strategy: str = "kv_aware", scenario: Scenario = SCENARIO, agenda: Agenda | None = None) -> OwnChooser:
    agenda = agenda or Agenda()
    engines = engines_of(scenario, agenda)
    chooser = OwnChooser(strategy, {}, scenario, block_tokens=BLOCK, agenda=agenda, engines=engines, seed=1)
    for number in range(scenario.replicas):
        chooser.joined(number)
    return chooser


def asked(tokens: int = 4000, family: int = 0) -> Asked:
    return Asked(0, turn(tokens, family=family), "", streamed=True)


def chosen(chooser: OwnChooser, request: Asked) -> int:
    ticket = chooser.choose(request)
    assert ticket is not None
    return ticket.replica


@pytest.mark.parametrize("holder", [0, 1])
def test_a_prompt_goes_where_events_say_it_is(holder: int) -> None:
    chooser = gateway(scenario=Scenario(replicas=2))
    chooser.heard(holder, Tier.L0, asked().turn.blocks, ())
    assert chosen(chooser, asked()) == holder


def test_events_of_who_left_are_not_heeded_and_it_gets_nothing() -> None:
    chooser = gateway()
    chooser.left(1)
    chooser.heard(1, Tier.L0, asked().turn.blocks, ())
    assert chosen(chooser, asked()) == 0
    chooser.left(0)
    assert chooser.choose(asked()) is None


def test_a_strategy_that_reads_no_prompt_counts_all_of_it_as_work() -> None:
    """As a running gateway: a session leaves its home for the work that is booked there, though all of it is cached."""
    chooser = gateway("session", scenario=Scenario(replicas=2))
    for holder in (0, 1):
        chooser.heard(holder, Tier.L0, asked().turn.blocks, ())
    assert {chosen(chooser, asked()._replace(session="s")) for _ in range(6)} == {0, 1}


def test_who_comes_back_has_an_empty_cache() -> None:
    chooser = gateway(scenario=Scenario(replicas=2))
    chooser.heard(1, Tier.L0, asked().turn.blocks, ())
    chooser.left(1)
    chooser.joined(1)
    picks = {chosen(chooser, asked(family=number)) for number in range(6)}
    assert picks == {0, 1}


def test_a_request_that_ended_holds_its_replica_no_longer() -> None:
    agenda = Agenda()
    chooser = gateway("least_loaded", Scenario(replicas=2), agenda)
    first = chooser.choose(asked())
    assert first is not None
    other = 1 - first.replica
    assert chosen(chooser, asked(family=1)) == other
    first.first_token()
    first.ended(0)
    assert chosen(chooser, asked(family=2)) == first.replica


@pytest.mark.parametrize("estimates", [True, False])
def test_what_was_finished_may_be_loaded_elsewhere(estimates: bool) -> None:
    """While its holder is busy, where the estimate is wanted: else it is computed no sooner elsewhere."""
    agenda = Agenda()
    chooser = gateway(scenario=Scenario(replicas=2, estimates_l2=estimates), agenda=agenda)
    first = chooser.choose(asked())
    assert first is not None
    first.ended(0)
    chooser.heard(first.replica, Tier.L0, asked().turn.blocks, ())
    chooser.left(1 - first.replica)
    assert chosen(chooser, asked(9000, family=1)) == first.replica
    chooser.joined(1 - first.replica)
    assert (chosen(chooser, asked()) != first.replica) is estimates


def test_an_estimate_that_never_holds_is_given_up() -> None:
    """Storage that keeps nothing: after some prompts that were computed all the same none is thought to lie there."""
    agenda = Agenda()
    chooser = gateway(scenario=Scenario(replicas=1, estimates_l2=True), agenda=agenda)
    estimated = []
    for number in range(20):
        agenda.at(number * 5.0, lambda: None)
        agenda.run()
        ticket = chooser.choose(asked())
        assert ticket is not None
        estimated.append(ticket._attempt.decision.l2_estimate)
        ticket.ended(0)
    assert (estimated[0], estimated[-1]) == (0, 0)
    assert 0 < estimated[1] == estimated[2]


def test_the_gateways_prior_is_the_truth_but_for_the_error() -> None:
    rates = rates_of(SCENARIO)
    assert rates.prefill_tokens_s == 2 * SCENARIO.engine.speeds.prefill_tokens_per_s
    assert rates.l2_tokens_s == SCENARIO.engine.l2_tokens_s


def test_speeds_are_told_or_not() -> None:
    told = gateway("round_robin")
    picks = [chosen(told, asked()) for _ in range(30)]
    assert picks.count(1) == 20
    untold = gateway("round_robin", Scenario(replicas=2, speeds=(0.5,), tells_speeds=False))
    assert [chosen(untold, asked()) for _ in range(30)].count(1) == 15


def test_what_others_sent_to_a_replica_is_seen_with_the_next_probe() -> None:
    house = _SharedReplicas(probe_s=1.0)
    house.others_send(4, to=1)
    assert house.picks(3, at_s=1.5) == [0, 0, 0]


def test_where_others_were_seen_is_looked_again_before_the_next_round() -> None:
    """And only there: those that come to the other replica are seen with the round."""
    house = _SharedReplicas(probe_s=1.0)
    house.others_send(4, to=1)
    house.picks(3, at_s=1.5)
    house.others_send(40, to=1)
    assert set(house.picks(20, at_s=1.8)) == {0}
    house.others_send(400, to=0)
    assert set(house.picks(3, at_s=2.1)) == {0}
    assert set(house.picks(3, at_s=2.5)) == {1}


class _SharedReplicas:
    """Two that others use, too, and a gateway that has sent one request and had its answer."""

    def __init__(self, *, probe_s: float) -> None:
        self._agenda, scenario = Agenda(), Scenario(replicas=2, probe_s=probe_s)
        self._engines = engines_of(scenario, self._agenda)
        self._chooser = OwnChooser(
            "least_loaded", {}, scenario, block_tokens=BLOCK, agenda=self._agenda, engines=self._engines, seed=1
        )
        self._chooser.joined(0)
        self._chooser.joined(1)
        first = self._chooser.choose(asked())
        assert first is not None
        first.first_token()
        first.ended(0)

    def others_send(self, count: int, *, to: int) -> None:
        for number in range(count):
            self._engines[to].submit(Job(turn(40_000, family=number), lambda: None, lambda: None))

    def picks(self, count: int, *, at_s: float) -> list[int]:
        self._agenda.now = at_s
        return [chosen(self._chooser, asked(family=9)) for _ in range(count)]
