"""Claim: what was predicted of one attempt, until its end shows whether it was so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import FeedState
from gateway.router.decision import Decision
from gateway.usage import Usage

NO_USAGE, NO_DETAILS = "no_usage", "no_details"
_COMPARABLE = ("", NO_USAGE)


class Judge(Protocol):
    """Who puts claims to the test."""

    def ended(self, claim: Claim, usage: Usage | None) -> None:
        """The attempt ended well."""
        ...


@dataclass(slots=True, eq=False)
class Claim:
    """``stats``: of the replica's feed; ``None``: its events are not followed. ``kind``: of the prompt: plain, salted
    or lora. ``new_block``: own hash of the first full block of the prompt that is not held there, and
    ``new_block_end`` its last token's number, from 1; 0: there is none.
    """

    judge: Judge
    replica: Replica
    decision: Decision
    stats: FeedStats | None
    kind: str
    new_block: int
    new_block_end: int
    key: ReplicaKey = field(init=False)
    predicted_tokens: int = field(init=False)  # what events said that the replica held of the prompt, in all tiers
    is_comparable: bool = field(init=False)  # the engine counts the same tokens as we do, if it tells
    unfit: str = field(init=False)  # why it cannot be put to the test, in a word; "": it can
    _removed: int = field(init=False)
    _gaps: int = field(init=False)  # of the feed, at the decision; -1: it was not fresh
    _removed_by_first_byte: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self.key = self.replica.key
        decision, stats = self.decision, self.stats
        self._removed, self._gaps = (0, -1) if stats is None else (stats.removed, stats.gaps)
        if stats is not None and stats.state is not FeedState.FRESH:
            self._gaps = -1
        self.predicted_tokens = decision.confirmed.usable
        self.is_comparable = bool(decision.prompt_tokens) and decision.incomparable in _COMPARABLE
        self.unfit = self._why_unfit()

    def first_byte(self) -> None:
        """Its prefill is done: what is evicted from now on concerns it no more."""
        if self.stats is not None and self._removed_by_first_byte < 0:
            self._removed_by_first_byte = self.stats.removed

    def ended(self, usage: Usage | None) -> None:
        """The attempt ended well."""
        self.judge.ended(self, usage)

    def leaves_news(self, usage: Usage | None) -> bool:
        """Whether events must tell of the new block, as they would not if it was there and nobody knew."""
        stats = self.stats
        if not self.new_block or stats is None or self._gaps != stats.gaps or stats.state is not FeedState.FRESH:
            return False
        cached_tokens = None if usage is None else usage.cached_tokens
        return stats.complete if cached_tokens is None else cached_tokens < self.new_block_end

    def evicted_tokens(self, cached_tokens: int) -> int:
        """At most so many of the predicted tokens may have been evicted for other requests after the decision, as the
        replica's events tell. Where they are told to another process that may be all of them.

        What the request computed itself took the place of as many blocks, after it was looked up.
        """
        stats, decision = self.stats, self.decision
        if stats is not None and not stats.counts_removed:
            return self.predicted_tokens
        if stats is None or not stats.l0_block_size:
            return 0
        by_first_byte = stats.removed if self._removed_by_first_byte < 0 else self._removed_by_first_byte
        own = (decision.prompt_tokens - cached_tokens) // stats.l0_block_size + 1
        return max(0, by_first_byte - self._removed - own) * stats.l0_block_size

    def _why_unfit(self) -> str:
        decision, stats = self.decision, self.stats
        if not decision.prompt_tokens:
            return "unknown_prompt"
        if not self.is_comparable:
            return decision.incomparable
        if stats is None:
            return "no_events"
        if stats.state is not FeedState.FRESH or decision.index_reason:
            return "unsettled"
        if decision.expected_tokens > self.predicted_tokens:
            return "in_flight"  # another request is about to store them, or has and it is not told yet
        return ""
