"""Asks a replay port once, on a connection of its own: what the follower of the same replica does is not disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import zmq

from gateway.kv.subscription import Batch, MalformedFramesError, ReplayRequest


class Replayed(NamedTuple):
    """``answered``: anything came at all, if only the end."""

    batches: Sequence[Batch]
    answered: bool


async def read_replay(endpoint: str, first: int, *, most: int, timeout_s: float) -> Replayed:
    """The batches from number ``first`` on, at most ``most`` of them. Raises ``zmq.ZMQError`` for no address."""
    wake = asyncio.Event()
    context = zmq.Context[zmq.Socket[bytes]]()
    batches: list[Batch] = []
    try:
        request = ReplayRequest(context, endpoint, first, wake)
        try:
            async with asyncio.timeout(timeout_s):
                await _read(request, wake, batches, most)
        except TimeoutError:
            return Replayed(batches, bool(batches))
        finally:
            request.close()
    finally:
        context.destroy(linger=0)
    return Replayed(batches, answered=True)


async def _read(request: ReplayRequest, wake: asyncio.Event, batches: list[Batch], most: int) -> None:
    while not request.ended and len(batches) < most:
        wake.clear()
        try:
            batch = request.take()
        except MalformedFramesError:
            continue
        if batch is not None:
            batches.append(batch)
        elif not request.ended:
            await wake.wait()
