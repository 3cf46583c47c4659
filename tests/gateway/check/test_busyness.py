"""A replica is busy where its reports say so again and again, not where one did."""

from __future__ import annotations

import asyncio

from gateway.check.busyness import is_busy, stays_busy
from gateway.fleet.load_report import LoadReport
from tests.gateway.check.proving import proving


async def test_one_report_with_a_waiting_request_is_no_reason() -> None:
    async with proving(probe_interval_s="60") as proven:
        replica = proven.replicas["a"]
        assert not await stays_busy(replica)

        replica.report = LoadReport(waiting=1.0)
        assert is_busy(replica)
        waiting = asyncio.ensure_future(stays_busy(replica, 60.0))
        await asyncio.sleep(0)
        replica.report = LoadReport(waiting=0.0)
        assert not await waiting


async def test_reports_that_go_on_saying_so_are() -> None:
    async with proving(probe_interval_s="60") as proven:
        proven.replicas["a"].report = LoadReport(waiting=1.0)
        assert await stays_busy(proven.replicas["a"], 0.1)
