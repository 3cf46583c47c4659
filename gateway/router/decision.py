"""Decision: which replica, and why. One object; answer headers, log line and metrics are views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gateway.kv.tiers import TierTokens


class Stages(NamedTuple):
    """Seconds that each stage of preparing a request took."""

    encode_s: float
    hash_s: float
    match_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """``confirmed`` is what events say the replica holds of the prompt; ``expected_tokens`` adds what is on its way.

    ``reason`` is one of ``router_strategies.REASONS``; ``prompt_reason`` is "" or why the prompt's tokens are unknown
    or were got in an unusual way, ``index_reason`` "" or why more may be held than is known. ``incomparable``: "" or
    why vLLM's count of cached tokens would mean something else.
    """

    replica_id: str
    namespace: str
    strategy: str
    reason: str
    prompt_reason: str
    index_reason: str
    prompt_tokens: int  # 0: unknown
    confirmed: TierTokens
    expected_tokens: int
    uncached_tokens: int
    prefill_s: float  # predicted
    avoided_s: float  # predicted prefill seconds that the cache spares
    incomparable: str
    candidates: int
    stages: Stages

    @property
    def reasons(self) -> str:
        """All reasons, as the header and the log line carry them."""
        return ", ".join(filter(None, (self.reason, self.prompt_reason, self.index_reason)))

    @property
    def matched(self) -> str:
        """``prompt=1925,l0=640,l1=0``: disjoint tokens; what is not known is left out."""
        if not self.prompt_tokens:
            return ""
        known = (self.confirmed.l0, self.confirmed.a1, self.confirmed.a2)
        tiers = zip(("l0", "l1", "l2"), known, self.confirmed.split())
        parts = [f"{name}={tokens}" for name, held, tokens in tiers if held is not None]
        return ",".join([f"prompt={self.prompt_tokens}", *parts])

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

    def log_fields(self) -> dict[str, object]:
        """The decision in an access-log line."""
        return {
            "replica": self.replica_id,
            "strategy": self.strategy,
            "reason": self.reasons,
            "prompt_tokens": self.prompt_tokens or None,
            "matched": self.matched or None,
            "expected_tokens": self.expected_tokens,
            "prefill_ms": round(self.prefill_s * 1e3, 1),
            "candidates": self.candidates,
        }
