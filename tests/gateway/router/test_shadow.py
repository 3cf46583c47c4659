"""Shadows are asked with the same facts, and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gateway.router.shadow import Regret, Shadows
from router_strategies import Candidate, Choice, RouteRequest, Strategy, load

REQUEST = RouteRequest(1000, "s")
HOLDER = Candidate("holder", expected_tokens=900, prefill_s=0.1, promised_s=2.0)
IDLE = Candidate("idle", expected_tokens=0, prefill_s=0.5, promised_s=0.0)


class Book:
    """What was counted, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def agreed(self, shadow: str, strategy: str) -> None:
        self.told.append((shadow, strategy))

    def differed(self, shadow: str, strategy: str, regret: Regret) -> None:
        self.told.append((shadow, strategy, round(regret.seconds, 6), regret.cached_tokens))

    def failed(self, shadow: str) -> None:
        self.told.append(shadow)


@dataclass
class Stubborn(Strategy):
    """Always chooses the same; notes whom it could have."""

    prefers: Candidate
    seen: object = None

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        self.seen = request, candidates
        return Choice(self.prefers, "cost")


class Broken(Strategy):
    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        raise ZeroDivisionError


def test_one_that_agrees_has_no_regret() -> None:
    book = Book()
    shadow = Stubborn(HOLDER)

    answers = Shadows({"x": shadow}, book).ask("kv_aware", REQUEST, [HOLDER, IDLE], HOLDER)

    assert (answers, book.told) == ({"x": "holder"}, [("x", "kv_aware")])
    assert shadow.seen == (REQUEST, [HOLDER, IDLE])


@pytest.mark.parametrize(
    ("chosen", "preferred", "told"),
    [(HOLDER, IDLE, ("x", "kv_aware", 1.6, -900)), (IDLE, HOLDER, ("x", "kv_aware", -1.6, 900))],
)
def test_regret_is_promised_work_and_prefill(chosen: Candidate, preferred: Candidate, told: object) -> None:
    """2.1 s at one replica, 0.5 s at the other: positive where the shadow would have saved."""
    book = Book()
    Shadows({"x": Stubborn(preferred)}, book).ask("kv_aware", REQUEST, [HOLDER, IDLE], chosen)

    assert book.told == [told]


def test_one_that_raises_is_counted_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The others are asked all the same."""
    book = Book()
    shadows = Shadows({"broken": Broken(), "x": Stubborn(IDLE)}, book)
    with caplog.at_level(logging.ERROR):
        answers = [shadows.ask("kv_aware", REQUEST, [HOLDER, IDLE], IDLE) for _ in range(3)]

    assert answers == [{"x": "idle"}] * 3
    assert book.told == ["broken", ("x", "kv_aware")] * 3
    assert len(caplog.records) == 1


def test_each_goes_on_from_its_own_state() -> None:
    """A rotation takes turns, whatever is chosen meanwhile."""
    shadows = Shadows({"round_robin": load("round_robin")}, Book())
    answers = [shadows.ask("kv_aware", REQUEST, [HOLDER, IDLE], HOLDER)["round_robin"] for _ in range(4)]

    assert answers == ["holder", "idle"] * 2


@pytest.mark.parametrize(("names", "reads"), [(["round_robin"], False), (["round_robin", "kv_aware"], True)])
def test_prompts_are_read_if_one_wants_them(names: list[str], reads: bool) -> None:
    assert Shadows({name: load(name) for name in names}, Book()).reads_prompt is reads
