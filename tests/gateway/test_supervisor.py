"""A background task that fails is started again; one that ends or is cancelled is not."""

from __future__ import annotations

import asyncio

import pytest

from gateway.supervisor import keep_running


async def test_an_error_is_survived_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Two failures, then a regular end: three runs."""
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("odd")

    await keep_running(run, "Part", pause_s=0)

    assert len(runs) == 3
    assert caplog.text.count("Part failed") == 2


async def test_cancelling_ends_it() -> None:
    """A stop is no failure."""
    task = asyncio.ensure_future(keep_running(asyncio.Event().wait, "Part"))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_another_error_is_news(caplog: pytest.LogCaptureFixture) -> None:
    """The same failure again is a line without its traceback; another one is told in full, and waits as the first."""
    errors = [ValueError("a"), ValueError("a"), ValueError("b"), None]

    async def run() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    await keep_running(run, "Part", pause_s=0.001)

    assert [bool(record.exc_info) for record in caplog.records] == [True, False, True]
    assert [record.getMessage().rpartition(" in ")[2] for record in caplog.records] == ["0.001 s", "0.002 s", "0.001 s"]
