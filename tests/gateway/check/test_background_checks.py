"""BackgroundChecks: after joining, at suspicion, seldom where nothing changes, and never by two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic

from gateway.check.background_checks import BackgroundChecks
from gateway.check.finding_book import FindingBook
from gateway.check.knowledge import Knowledge
from gateway.check.replica_checks import ReplicaChecks
from gateway.fleet.replica_key import ReplicaKey
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, Proving, proving

ONE = ReplicaOptions(speeds=FAST)


@asynccontextmanager
async def _checking(
    proven: Proving,
    *,
    interval_s: float | None = None,
    may_check: Callable[[ReplicaKey], bool] = lambda _: True,
    settling_s: float = 0.0,
    clock: Callable[[], float] | None = None,
    known: Knowledge | None = None,
) -> AsyncIterator[tuple[BackgroundChecks, FindingBook]]:
    """``known``: by the checks."""
    knowledge = proven.knowledge if clock is None else replace(proven.knowledge, clock=clock)
    book = FindingBook(knowledge.clock)
    background = BackgroundChecks(
        knowledge,
        ReplicaChecks(known or proven.knowledge, proven.caller, event_deadline_s=0.3),
        book,
        interval_s=interval_s,
        may_check=may_check,
        settling_s=settling_s,
        pause_s=0.01,
    )
    running = asyncio.ensure_future(background.run())
    try:
        yield background, book
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _names(book: FindingBook) -> set[tuple[str, str]]:
    return {(finding.name, finding.replica_id) for finding, _ in book.standing()}


async def test_each_replica_is_checked_once_it_has_joined() -> None:
    untold = ReplicaOptions(speeds=FAST, prompt_tokens_details=False)
    async with proving(ONE, untold) as proven, _checking(proven) as (background, book):
        await eventually(lambda: background.done >= 2)

        assert _names(book) == {("details_off", "b")}


async def test_again_after_the_interval() -> None:
    async with proving() as proven, _checking(proven, interval_s=0.01) as (background, _):
        await eventually(lambda: background.done >= 3)


async def test_what_is_mended_is_found_to_be() -> None:
    async with proving() as proven:
        proven.sims["a"].silent.template_preamble = "Odd. "
        async with _checking(proven, clock=lambda: 20 * monotonic()) as (_, book):  # in a hurry
            await eventually(lambda: _names(book) == {("template_differs", "a")})
            proven.sims["a"].silent.template_preamble = ""
            await eventually(lambda: not _names(book))


async def test_a_suspicion_has_a_replica_checked_before_its_time() -> None:
    async with proving() as proven, _checking(proven, settling_s=3600.0) as (background, book):
        await asyncio.sleep(0)
        proven.sims["a"].silent.template_preamble = "Odd. "

        def is_found() -> bool:
            background.suspect(proven.replicas["a"], ["over_predicted"])
            return _names(book) == {("template_differs", "a")}

        await eventually(is_found)
        assert background.done == 1


async def test_a_new_symptom_does_not_wait_for_as_long_as_those_looked_into_in_vain() -> None:
    now = [0.0]
    async with proving() as proven, _checking(proven, clock=lambda: now[0]) as (background, _):
        await eventually(lambda: background.done == 1)
        for done in range(2, 7):  # the next one of these would be after 96 seconds
            now[0] += 100.0
            background.suspect(proven.replicas["a"], ["under_predicted"])
            await eventually(lambda done=done: background.done == done)  # type: ignore[misc]
        now[0] += 4.0
        background.suspect(proven.replicas["a"], ["under_predicted", "unconfirmed"])

        await eventually(lambda: background.done == 7)


async def test_one_that_is_too_busy_when_it_joins_is_checked_soon_again() -> None:
    now = [0.0]
    async with proving(probe_interval_s="3600") as proven:
        replica = proven.replicas["a"]
        report, replica.report = replica.report, replace(replica.report, waiting=3.0)
        async with _checking(proven, clock=lambda: now[0], known=proven.impatient) as (background, _):
            await eventually(lambda: background.done == 1)
            replica.report = report
            now[0] += 4.0

            await eventually(lambda: background.done == 2)


async def test_what_another_gateway_checks_is_left_to_it() -> None:
    async with (
        proving(ONE, ONE) as proven,
        _checking(proven, may_check=lambda k: k.server_id == "b") as (background, _),
    ):
        await eventually(lambda: background.done >= 1)
        await proven.caller.complete(proven.replicas["a"], "simulated", [300])

        assert not [r for r in proven.sims["a"].requests if r.path == "/tokenize"]
        assert [r for r in proven.sims["b"].requests if r.path == "/tokenize"]


async def test_what_is_not_ready_for_requests_is_checked_when_it_is() -> None:
    """A pod that warms up, or one that others are to take work from: the check sends requests, too."""
    async with proving(ONE, ONE) as proven:
        held = proven.replicas["a"].server
        held.held_back = True
        async with _checking(proven, clock=lambda: 20 * monotonic()) as (background, _):  # in a hurry
            await eventually(lambda: background.done == 1)
            background.suspect(proven.replicas["a"], ["over_predicted"])
            background.suspect(proven.replicas["b"], ["over_predicted"])
            await eventually(lambda: background.done == 2)
            untouched = not [r for r in proven.sims["a"].requests if r.path == "/tokenize"]
            held.held_back = False

            await eventually(lambda: background.done == 3)
            assert untouched


async def test_a_stale_replay_is_noticed_as_soon_as_something_is_published() -> None:
    async with proving(ONE, ONE) as proven, _checking(proven, settling_s=3600.0) as (background, book):
        a, b = (proven.sims[name].publisher for name in "ab")
        proven.sims["a"].silent.lists_events_of = (a.endpoint, b.replay_endpoint)
        events = proven.knowledge.events
        await eventually(lambda: events.followable[proven.replicas["a"].key].replay_endpoint == b.replay_endpoint)
        await proven.caller.complete(proven.replicas["a"], "simulated", [*range(300, 340)])

        await eventually(lambda: ("replay_stale", "a") in _names(book))
        assert background.done == 0


async def test_what_is_proved_to_be_gone_is_believed_no_more() -> None:
    async with proving() as proven:
        replica, sim = proven.replicas["a"], proven.sims["a"]
        for first in (300, 400, 500):
            await proven.caller.complete(replica, "simulated", [*range(first, first + 80)])
        stats = proven.knowledge.stats(replica)
        assert stats is not None
        await eventually(lambda: stats.last_sequence == sim.publisher.next_sequence - 1)
        sim.cache.lose()
        async with _checking(proven):
            await eventually(lambda: stats.lost["vanished"] == 1)
