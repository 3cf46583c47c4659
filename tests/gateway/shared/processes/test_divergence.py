"""What other processes do differently, for people."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pytest

from gateway.shared.link.keys import Keys
from gateway.shared.processes.divergence import Divergence
from gateway.shared.processes.member_record import MemberRecord, digest
from gateway.shared.processes.members import Members
from tests.gateway.examples import Clock

MINE = MemberRecord("me", "host:1", version="1", strategy="kv_aware", orders_version=3, secret_id="aa")


class House:
    """This process, and what it hears of others."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.members = Members(Keys(), lambda: MINE, clock=self.clock)
        self.divergence = Divergence(self.members, clock=self.clock)

    def hear(self, *records: MemberRecord) -> None:
        rows = [word for r in records for word in (r.process_id.encode(), digest(r.encode()).encode(), r.encode())]
        self.members.answered([0, *rows])

    def check_for(self, seconds: float) -> None:
        """With every half second a beat that brings nothing new."""
        for _ in range(round(2 * seconds)):
            self.clock.now += 0.5
            self.hear(*self.members.others.values())
            self.divergence.check()


def _other(id_: str, **told: object) -> MemberRecord:
    return msgspec.structs.replace(MINE, process_id=id_, name=f"host:{id_}", **told)


def _lines(caplog: pytest.LogCaptureFixture) -> Sequence[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_nobody_differs_from_one_alone() -> None:
    """And all subjects are there, for a metric."""
    house = House()

    assert house.divergence.counts() == {"strategy": 0, "orders": 0, "secret": 0, "version": 0}
    assert house.divergence.view() == {}


def test_who_differs_in_what() -> None:
    """Each subject by itself, with the values."""
    house = House()
    house.hear(_other("b", strategy="session", orders_version=4), _other("c", orders_version=2), _other("d"))

    assert house.divergence.counts() == {"strategy": 1, "orders": 2, "secret": 0, "version": 0}
    assert house.divergence.view() == {
        "strategy": {"here": "kv_aware", "elsewhere": {"b": "session"}},
        "orders": {"here": 3, "elsewhere": {"b": 4, "c": 2}},
    }


def test_what_is_not_told_does_not_differ() -> None:
    """An indexer has no strategy and takes no orders."""
    house = House()
    house.hear(MemberRecord("b", kind="indexer", version="1", secret_id="aa"))

    assert sum(house.divergence.counts().values()) == 0


def test_old_news_is_no_divergence() -> None:
    """While Redis is away nobody knows."""
    house = House()
    house.hear(_other("b", secret_id="bb"))
    house.clock.now += 10

    assert house.divergence.counts()["secret"] == 0


def test_the_log_tells_what_lasts_once(caplog: pytest.LogCaptureFixture) -> None:
    """Loud at its start, quiet until it changes, and a word at its end; never a secret's id."""
    caplog.set_level(logging.INFO)
    house = House()
    house.hear(_other("b", secret_id="5ec2e7"))
    house.check_for(20)
    house.hear(_other("b", secret_id="5ec2e7"), _other("c", secret_id="5ec2e7"))
    house.check_for(20)
    house.hear(_other("b"), _other("c"))
    house.check_for(20)

    assert _lines(caplog) == [
        ("WARNING", "1 of 1 other processes differ from this one: secret: host:b"),
        ("WARNING", "2 of 2 other processes differ from this one: secret: host:b, host:c"),
        ("INFO", "all processes agree again: secret"),
    ]


def test_an_outage_is_no_agreement(caplog: pytest.LogCaptureFixture) -> None:
    """While Redis is away nothing is told, and afterwards only what changed."""
    caplog.set_level(logging.INFO)
    house = House()
    house.hear(_other("b", strategy="session"))
    house.check_for(5)
    for _ in range(20):
        house.clock.now += 1
        house.divergence.check()
    house.check_for(5)

    assert _lines(caplog) == [("WARNING", "1 of 1 other processes differ from this one: strategy: host:b")]


def test_what_passes_soon_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """An order on its way; a process that has just started."""
    caplog.set_level(logging.INFO)
    house = House()
    for _ in range(5):
        house.hear(_other("b", orders_version=4))
        house.check_for(2)
        house.hear(_other("b"))
        house.check_for(2)

    assert _lines(caplog) == []


def test_versions_differ_in_every_upgrade(caplog: pytest.LogCaptureFixture) -> None:
    """That is told, and is no warning."""
    caplog.set_level(logging.INFO)
    house = House()
    house.hear(_other("b", version="2"))
    house.check_for(5)

    assert _lines(caplog) == [("INFO", "1 of 1 other processes differ from this one: version: host:b")]
