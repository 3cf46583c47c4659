"""Decision: which replica, and why. One object; answer headers, log line and metrics are views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gateway.kv.tiers import TierTokens
from gateway.router.decision_record import DecisionRecord


class Stages(NamedTuple):
    """Seconds that each stage of preparing a request took."""

    encode_s: float
    hash_s: float
    match_s: float


@dataclass(slots=True)
class Decision:
    """``confirmed`` is what events say the replica holds of the prompt; ``expected_tokens`` adds what is on its way.

    ``reason`` is one of ``router_strategies.REASONS``; ``prompt_reason`` is "" or why the prompt's tokens are unknown
    or were got in an unusual way, ``index_reason`` "" or why more may be held than is known. ``incomparable``: "" or
    why vLLM's count of cached tokens would mean something else. ``record``: of the request's first attempt, where such
    are kept. ``l2_estimate``: tokens beyond all that, which it most likely can load from shared storage. Never
    changed; frozen it would be dear to make.
    """

    replica_id: str
    namespace: str
    strategy: str
    reason: str
    prompt_reason: str
    index_reason: str
    prompt_tokens: int  # 0: unknown; only those at its beginning where no more is known
    confirmed: TierTokens
    expected_tokens: int
    uncached_tokens: int
    prefill_s: float  # predicted
    avoided_s: float  # predicted prefill seconds that the cache spares
    incomparable: str
    candidates: int
    stages: Stages
    knows_beginning_only: bool = False  # of the prompt
    record: DecisionRecord | None = None
    l2_estimate: int = 0

    @property
    def reasons(self) -> str:
        """All reasons, as the header and the log line carry them."""
        if not self.prompt_reason and not self.index_reason:
            return self.reason
        return ", ".join(filter(None, (self.reason, self.prompt_reason, self.index_reason)))

    @property
    def matched(self) -> str:
        """``prompt=1925,l0=640,l1=0``: disjoint tokens; what is not known is left out.

        ``known=1925`` instead of ``prompt=``: the prompt has more tokens than the gateway can know. ``l2=`` is what
        events tell, ``l2_estimate=`` what no event told.
        """
        if not self.prompt_tokens:
            return ""
        l0, a1, a2 = self.confirmed
        from_l0, from_l1, from_l2 = self.confirmed.split()
        parts = f"{'known' if self.knows_beginning_only else 'prompt'}={self.prompt_tokens}"
        if l0 is not None:
            parts += f",l0={from_l0}"
        if a1 is not None:
            parts += f",l1={from_l1}"
        if a2 is not None:
            parts += f",l2={from_l2}"
        return f"{parts},l2_estimate={self.l2_estimate}" if self.l2_estimate else parts

    def found_in_l2(self, cached_tokens: int) -> int:
        """How many of the tokens estimated to be in L2 were cached indeed: what is beyond all that was known of."""
        beyond = cached_tokens - max(self.confirmed.usable, self.expected_tokens)
        return min(self.l2_estimate, beyond) if beyond > 0 else 0

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The receipt, as answer headers."""
        receipt = [
            (b"x-prefixway-replica", self.replica_id.encode("latin-1", "replace")),
            (b"x-prefixway-strategy", self.strategy.encode()),
            (b"x-prefixway-reason", self.reasons.encode()),
        ]
        if matched := self.matched:
            receipt.append((b"x-prefixway-matched", matched.encode()))
        return receipt
