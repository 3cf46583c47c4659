"""A gateway of somebody else's: what its formula gets to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gateway.kv.tiers import Tier
from loadtest.replay.agenda import Agenda
from loadtest.replay.chooser import Asked
from loadtest.replay.engine import Engine, Job
from loadtest.replay.lower_tier import LowerTier
from loadtest.replay.rival_chooser import RivalChooser
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.rivals import Pick, RivalRequest, View
from tests.loadtest.replay.examples import BLOCK, turn


@dataclass(slots=True)
class First:
    """Takes the first one, and keeps what it saw."""

    reads_events: ClassVar[bool] = True
    seen: list[list[tuple[int, ...]]] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        self.seen.append([(v.l0_tokens, v.inflight, v.pending, v.pending_tokens, v.inflight_blocks) for v in views])
        self.waiting.append(views[0].waiting)
        return Pick(views[0], request.prompt_tokens - views[0].cached_tokens)

    def ended(self, request: RivalRequest, view: View) -> None:
        self.over.append(view.number)

    def left(self, number: int) -> None:
        self.gone.append(number)


class House:
    def __init__(self, **scenario: float) -> None:
        self.scenario = Scenario(replicas=2, engine=EngineOptions(l0_blocks=100), **scenario)  # type: ignore[arg-type]
        self.agenda = Agenda()
        self.engines = [
            Engine(
                number,
                self.scenario.engine,
                block_tokens=BLOCK,
                speed=1.0,
                agenda=self.agenda,
                storage=LowerTier(0),
                publish=lambda *_: None,
            )
            for number in range(2)
        ]
        self.rival = First()
        self.gateway = RivalChooser(
            self.rival, self.scenario, block_tokens=BLOCK, agenda=self.agenda, engines=self.engines
        )
        for number in range(2):
            self.gateway.joined(number)


def asked(number: int = 0) -> Asked:
    return Asked(number, turn(2000), "", streamed=True)


def test_counts_follow_each_request() -> None:
    house = House()
    ticket = house.gateway.choose(asked())
    assert ticket is not None
    house.gateway.choose(asked(1))
    ticket.first_token()
    house.gateway.choose(asked(2))
    ticket.ended(0)
    house.gateway.choose(asked(3))
    assert [views[0][1:] for views in house.rival.seen] == [
        (0, 0, 0, 0),
        (1, 1, 2000, 4),
        (2, 1, 2000, 8),
        (2, 2, 4000, 8),
    ]
    assert house.rival.over == [0]


def test_it_sees_what_events_say_of_the_prompt_but_for_the_last_block() -> None:
    house = House()
    house.gateway.heard(1, Tier.L0, asked().turn.blocks, ())
    house.gateway.choose(asked())
    assert [view[0] for view in house.rival.seen[0]] == [0, 1536]


def test_without_events_it_sees_none() -> None:
    house = House(publishes=False)
    house.gateway.heard(1, Tier.L0, asked().turn.blocks, ())
    house.gateway.choose(asked())
    assert [view[0] for view in house.rival.seen[0]] == [0, 0]


def test_the_replicas_own_words_are_as_old_as_their_reports() -> None:
    house = House(report_s=1.0)
    house.gateway.choose(asked())
    house.engines[0].submit(Job(turn(2000), lambda: None, lambda: None))
    for house.agenda.now in (0.5, 1.5):
        house.gateway.choose(asked())
    assert house.rival.waiting == [0, 0, 1]


def test_who_left_is_not_offered_and_with_nobody_left_there_is_no_choice() -> None:
    house = House()
    house.gateway.left(0)
    ticket = house.gateway.choose(asked())
    assert ticket is not None
    assert (ticket.replica, house.rival.gone) == (1, [0])
    house.gateway.left(1)
    assert house.gateway.choose(asked()) is None
