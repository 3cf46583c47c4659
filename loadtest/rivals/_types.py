"""The contract between the replay and a rival: what another gateway would know, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol


class RivalRequest(NamedTuple):
    """``blocks``: ids of the prompt's full blocks; equal ids mean equal prefixes. Stands for the prompt's text too."""

    number: int  # of the request, from 0
    prompt_tokens: int
    block_tokens: int
    blocks: Sequence[int]
    session: str
    now: float  # seconds


@dataclass(slots=True, eq=False)
class View:
    """A replica as one gateway sees it. The gateway's own counts are exact; ``waiting``, ``running`` and ``kv_usage``
    are the replica's own words, as old as its reports.

    ``l0_tokens``, ``l1_tokens``, ``l2_tokens``: of the request's prompt, disjoint, as KV events tell (0 for a rival
    that does not read events).
    """

    number: int
    capacity_blocks: int = 0  # of its GPU
    l0_tokens: int = 0
    l1_tokens: int = 0
    l2_tokens: int = 0
    inflight: int = 0  # requests sent and not ended
    pending: int = 0  # of them, without a first token
    pending_tokens: int = 0  # what :class:`Pick` said must be computed, of those
    inflight_blocks: int = 0  # blocks of all prompts in flight; shared ones count each time
    waiting: int = 0
    running: int = 0
    kv_usage: float = 0.0  # 0..1
    queued_tokens: int = 0  # prompt tokens that wait at the replica
    running_tokens: int = 0  # tokens of context of the requests that run there

    @property
    def cached_tokens(self) -> int:
        return self.l0_tokens + self.l1_tokens + self.l2_tokens


class Pick(NamedTuple):
    """The chosen one, and how many tokens the rival thinks must be computed there."""

    view: View
    prefill_tokens: int


class Rival(Protocol):
    """A rival's fields are its options; their defaults are the published ones, and ``seed`` decides ties."""

    reads_events: ClassVar[bool]  # whether the views tell what KV events say

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        """Choose one of ``views`` (at least one), and remember what its gateway would remember of the choice."""
        ...

    def ended(self, request: RivalRequest, view: View) -> None:
        """The request is over."""

    def left(self, number: int) -> None:
        """A replica is gone."""
