"""Looking up again and again: what changed is handed on, what failed changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence

import pytest

from gateway.fleet.discovery.polling import Found, LookupFailed, PollingDiscovery
from gateway.fleet.server_spec import ServerSpec, parse_servers
from tests.fakes.background import running
from tests.fakes.waiting import eventually


class _Directory:
    """Answers what it is set to, or fails with that."""

    def __init__(self) -> None:
        self.answer: Found | str = Found(())
        self.asked = 0
        self.closed = False

    async def look_up(self) -> Found:
        self.asked += 1
        if isinstance(self.answer, str):
            raise LookupFailed(self.answer)
        return self.answer

    async def close(self) -> None:
        self.closed = True


class _Fleet:
    def __init__(self) -> None:
        self.directory = _Directory()
        self.told: list[tuple[list[str], set[str]]] = []
        self.now = 100.0
        self.discovery = PollingDiscovery(self.directory, self._found, clock=lambda: self.now, interval_s=0.01)

    def _found(self, specs: Sequence[ServerSpec], held_back: Collection[str]) -> None:
        self.told.append(([spec.id for spec in specs], set(held_back)))


def _listing(text: str, *held_back: str) -> Found:
    return Found(parse_servers(text), frozenset(held_back))


async def test_only_what_changed_is_handed_on() -> None:
    fleet = _Fleet()
    for listing in ("a=http://a:1", "a=http://a:1", "a=http://a:1,b=http://b:1"):
        fleet.directory.answer = _listing(listing)
        await fleet.discovery.look()
    fleet.directory.answer = _listing("a=http://a:1,b=http://b:1", "b")
    await fleet.discovery.look()

    assert fleet.told == [(["a"], set()), (["a", "b"], set()), (["a", "b"], {"b"})]


async def test_a_look_up_that_fails_changes_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fleet = _Fleet()
    fleet.directory.answer = _listing("a=http://a:1")
    await fleet.discovery.look()
    fleet.now += 7
    fleet.directory.answer = "it is on fire"
    await fleet.discovery.look()
    await fleet.discovery.look()

    assert (fleet.discovery.fault, fleet.discovery.failures, fleet.discovery.age_s) == ("it is on fire", 2, 7.0)
    fleet.directory.answer = _listing("a=http://a:1")
    await fleet.discovery.look()
    assert (fleet.discovery.fault, fleet.discovery.age_s) == ("", 0.0)
    assert len(fleet.told) == 1
    assert caplog.messages == [
        "replicas cannot be looked up, keeping those that were found: it is on fire",
        "replicas can be looked up again",
    ]


async def test_an_empty_list_is_an_answer() -> None:
    fleet = _Fleet()
    assert not fleet.discovery.answered.is_set()
    await fleet.discovery.look()

    assert fleet.discovery.answered.is_set()
    assert fleet.told == [([], set())]


async def test_it_looks_until_it_is_cancelled_and_then_closes_its_directory() -> None:
    fleet = _Fleet()
    async with running(fleet.discovery.run()):
        await eventually(lambda: fleet.directory.asked > 2)
        assert not fleet.directory.closed
    await asyncio.sleep(0)

    assert fleet.directory.closed


async def test_what_is_wrong_with_an_entry_is_told_once_for_as_long_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The list holds without it; of very many faults some are told."""
    fleet = _Fleet()
    for faults in (("b: odd",), ("b: odd",), ("b: odd", "c: odd"), (), ("c: odd",)):
        fleet.directory.answer = _listing("a=http://a:1")._replace(faults=faults)
        await fleet.discovery.look()
    told = [message.partition(": ")[2] for message in caplog.messages]
    caplog.clear()
    fleet.directory.answer = Found((), faults=tuple(str(number) for number in range(1000)))
    await fleet.discovery.look()

    assert told == ["b: odd", "c: odd", "c: odd"]
    assert fleet.discovery.entry_faults == fleet.directory.answer.faults
    assert len(caplog.messages) == 21
    assert caplog.messages[-1].endswith("and 980 more faults of that kind")
