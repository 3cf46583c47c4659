"""Requests and replicas as the tests of rivals make them by hand: blocks of 100 tokens."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.rivals import Rival, RivalRequest, View

BLOCK = 100


def asked(
    blocks: Sequence[int], *, tokens: int = 0, session: str = "", now: float = 0.0, number: int = 0
) -> RivalRequest:
    """``tokens``: of the prompt; 0: no more than its blocks."""
    return RivalRequest(number, tokens or max(1, BLOCK * len(blocks)), BLOCK, blocks, session, now)


def asked_tokens(prompt_tokens: int = 1000, *, first_block: int = 0, number: int = 0, now: float = 0.0) -> RivalRequest:
    """One whose prompt's blocks are numbered from ``first_block`` on."""
    blocks = range(first_block, first_block + prompt_tokens // BLOCK)
    return asked(blocks, tokens=prompt_tokens, session=f"session {number}", now=now, number=number)


def fleet(*in_flight: int, capacity_blocks: int = 0) -> list[View]:
    """One replica for each number of requests in flight."""
    return [View(n, capacity_blocks=capacity_blocks, inflight=count) for n, count in enumerate(in_flight)]


def teach(rival: Rival, number: int, blocks: Sequence[int], *, now: float = 0.0) -> None:
    """The rival sends a prompt to this replica, having no other."""
    rival.select(asked(blocks, now=now), [View(number)])


def chosen(rival: Rival, request: RivalRequest, views: Sequence[View], times: int = 1) -> set[int]:
    """Who is chosen for a request, or for as many like it as ``times``; nothing is in flight longer than a choice."""
    return {rival.select(request, views).view.number for _ in range(times)}
