"""A place is always held: by the next worker after a death, by a successor on request."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.workers.limits import Limits
from gateway.workers.post import Post
from gateway.workers.tally import Tally
from gateway.workers.worker_process import WorkerProcess
from tests.fakes.waiting import eventually
from tests.gateway.workers.births import LIMITS, Births, Listener, births


@asynccontextmanager
async def running_post(
    born: Births, limits: Limits = LIMITS, listener: Listener | None = None
) -> AsyncIterator[tuple[Post, Tally]]:
    tally = Tally()
    post = Post(1, born.start, limits=limits, tally=tally, listener=listener or Listener(), changed=lambda: None)
    running = asyncio.ensure_future(post.run())
    try:
        yield post, tally
    finally:
        post.stop()
        await running


async def serving(post: Post, other_than: int = 0) -> WorkerProcess:
    """Its holder, once that serves."""
    await eventually(
        lambda: post.holder is not None and post.holder.state == "serving" and post.holder.pid != other_than
    )
    assert post.holder is not None
    return post.holder


async def test_a_worker_that_dies_is_replaced_and_its_connections_counted() -> None:
    """The next one answers new clients; the open connection is the only one lost."""
    listener = Listener()
    with births() as born:
        async with running_post(born, listener=listener) as (post, tally):
            first = await serving(post)
            _, reader, writer = await born.hold()
            await eventually(lambda: first.report.connections == 1)
            os.kill(first.pid, signal.SIGKILL)
            assert await reader.read() == b""
            writer.close()
            assert await born.ask() == (await serving(post, first.pid)).pid
            assert (tally.deaths, tally.connections_lost, tally.replacements) == (1, 1, 0)

    assert listener.told[:2] == [("joined", first.pid), ("left", first.pid)]
    assert listener.told[2][0] == "joined"


async def test_a_clean_exit_that_nobody_asked_for_is_a_death() -> None:
    """The place is not left empty."""
    with births(WORKER_EXITS="7") as born:
        async with running_post(born) as (post, tally):
            await eventually(lambda: tally.deaths > 1)
            assert post.has_failed_with == 7


async def test_those_that_die_young_are_replaced_more_and_more_slowly(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that cannot live does not keep the machine busy: the pauses grow, and a stop does not wait for one."""
    limits = replace(LIMITS, young_s=60, first_pause_s=0.001, longest_pause_s=3600)
    with births(WORKER_EXITS="7") as born, caplog.at_level(logging.WARNING):
        async with running_post(born, limits) as (_, tally):
            await eventually(lambda: tally.deaths == 4)

    pauses = [record.args[1] for record in caplog.records if "starts again" in record.msg and record.args]  # type: ignore[index]
    assert pauses[:3] == [0.001, 0.002, 0.004]


async def test_a_process_that_cannot_be_started_is_tried_again() -> None:
    """As when the system has no memory for it at the moment."""
    with births() as born:
        command = born.birthplace.command
        born.birthplace = replace(born.birthplace, command=("/nowhere/to/be/found",))
        async with running_post(born) as (post, _):
            await asyncio.sleep(0)
            born.birthplace = replace(born.birthplace, command=command)
            await serving(post)


async def test_a_successor_is_ready_before_the_old_one_leaves() -> None:
    """There is no moment without one that accepts; open connections stay to their end."""
    listener = Listener()
    with births() as born:
        async with running_post(born, listener=listener) as (post, tally):
            old = await serving(post)
            _, reader, writer = await born.hold()
            renewing = asyncio.ensure_future(post.renew())
            new = await serving(post, old.pid)
            await eventually(lambda: old.is_leaving)
            assert await born.ask() == new.pid
            writer.write(b"hold\n")
            assert int(await reader.readline()) == old.pid
            writer.close()
            assert await renewing
            assert (tally.deaths, tally.replacements) == (0, 1)

    assert ("drained", old.pid) in listener.told


async def test_without_a_ready_successor_the_old_one_stays() -> None:
    """The successor is ended, and whoever asked is told."""
    with births() as born:
        async with running_post(born, replace(LIMITS, ready_s=1.0)) as (post, tally):
            old = await serving(post)
            born.birthplace = replace(
                born.birthplace, environ={**born.birthplace.environ, "WORKER_IS_READY": "/nowhere/ready"}
            )
            assert not await post.renew()
            assert post.holder is old
            assert await born.ask() == old.pid
            assert tally.replacements == 0
            await eventually(lambda: post.workers == [old])


async def test_where_nothing_is_ready_a_successor_need_not_be() -> None:
    """No replica is up: the old one is no better."""
    with births() as born:
        born.ready.unlink()
        async with running_post(born) as (post, tally):
            await eventually(lambda: post.holder is not None and post.holder.state == "waiting")
            assert await post.renew()
            assert tally.replacements == 1


async def test_an_old_one_that_dies_meanwhile_is_succeeded_all_the_same() -> None:
    """By the one that was starting."""
    with births() as born:
        async with running_post(born) as (post, tally):
            old = await serving(post)
            renewing = asyncio.ensure_future(post.renew())
            await eventually(lambda: len(post.workers) == 2)
            os.kill(old.pid, signal.SIGKILL)
            new = await serving(post, old.pid)
            assert await renewing
            assert post.workers == [new]
            assert tally.deaths == 1


async def test_sigterm_to_a_worker_renews_it() -> None:
    """As planned, nothing lost."""
    with births() as born:
        async with running_post(born) as (post, tally):
            old = await serving(post)
            os.kill(old.pid, signal.SIGTERM)
            await serving(post, old.pid)
            await eventually(lambda: not old.is_alive)
            assert old.status == 0
            assert (tally.deaths, tally.replacements) == (0, 1)


async def test_a_stop_in_the_middle_of_a_renewal_ends_both() -> None:
    """And whoever asked for the renewal is told that it was not."""
    with births() as born:
        async with running_post(born) as (post, tally):
            await serving(post)
            renewing = asyncio.ensure_future(post.renew())
            await eventually(lambda: len(post.workers) == 2)
            post.stop()
            assert not await renewing
            assert not await post.renew()

    assert tally.deaths == 0
