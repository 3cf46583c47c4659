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
