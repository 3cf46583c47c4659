"""A router that offers replicas in the order it was given them, and records what attempts are told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.errors import NoReplica
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.kv.tiers import TierTokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Decision, Stages
from gateway.usage import Usage


@dataclass
class StandInAttempt:
    """``ends``: every call of ``end``, though only the first counts."""

    server_id: str
    origin: Origin
    pinned_rank: int | None = None
    first_bytes: int = 0
    ends: list[Outcome] = field(default_factory=list)
    retry_after_s: float | None = None
    usage: Usage | None = None
    responses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decision = Decision(
            replica_id=self.server_id,
            namespace="m",
            strategy="round_robin",
            reason="rotation",
            prompt_reason="",
            index_reason="",
            prompt_tokens=0,
            confirmed=TierTokens(),
            expected_tokens=0,
            uncached_tokens=0,
            prefill_s=0.0,
            avoided_s=0.0,
            incomparable="",
            candidates=1,
            stages=Stages(0.0, 0.0, 0.0),
        )

    @property
    def outcome(self) -> Outcome | None:
        return self.ends[0] if self.ends else None

    def first_byte(self) -> None:
        self.first_bytes += 1

    def responded(self, response_id: str) -> None:
        self.responses.append(response_id)

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None:
        if not self.ends:
            self.retry_after_s, self.usage = retry_after_s, usage
        self.ends.append(outcome)


class StandInPrepared(NamedTuple):
    work_tokens: int
    alias: str = ""


class StandInRouter:
    """Replicas are named ``a``, ``b``, ... in the order of ``origins``."""

    def __init__(self, origins: Sequence[Origin], *, pinned_rank: int | None = None) -> None:
        self._replicas = {chr(ord("a") + n): origin for n, origin in enumerate(origins)}
        self._pinned_rank = pinned_rank
        self.may_prepare = asyncio.Event()
        self.may_prepare.set()
        self.waiting = 0  # requests that wait for that
        self.work_tokens = 10  # of every request
        self.requests: list[InferenceRequest] = []
        self.strategies: list[str | None] = []
        self.attempts: list[StandInAttempt] = []

    @property
    def outcomes(self) -> list[Outcome | None]:
        return [attempt.outcome for attempt in self.attempts]

    @property
    def settled(self) -> bool:
        """Whether every attempt has ended."""
        return all(attempt.ends for attempt in self.attempts)

    def prepare_now(self, request: InferenceRequest, *, strategy: str | None = None) -> StandInPrepared | None:
        """``None`` while ``may_prepare`` is not set."""
        if not self.may_prepare.is_set():
            return None
        self.requests.append(request)
        self.strategies.append(strategy)
        return StandInPrepared(self.work_tokens, request.alias)

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> StandInPrepared:
        self.waiting += 1
        await self.may_prepare.wait()
        self.waiting -= 1
        prepared = self.prepare_now(request, strategy=strategy)
        assert prepared is not None
        return prepared

    def attempt(self, prepared: StandInPrepared, tried: frozenset[str]) -> StandInAttempt:
        for server_id, origin in self._replicas.items():
            if server_id not in tried:
                attempt = StandInAttempt(server_id, origin, self._pinned_rank)
                self.attempts.append(attempt)
                return attempt
        raise NoReplica("No replica is left.")
