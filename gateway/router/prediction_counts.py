"""PredictionCounts: what became of predictions, as counts that only ever grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.kv.counted import Counted

#: How a prediction was verified. By usage: against the answer's own ``cached_tokens``; by counters: together with
#: others, against what the replica's metrics counted meanwhile.
USAGE, COUNTERS, UNVERIFIED = "usage", "counters", "unverified"


@dataclass(slots=True)
class PredictionCounts(Counted):
    """Of one replica, or of all. Tokens where the name says so, else requests."""

    by_source: Counter[str] = field(default_factory=Counter)
    prompt_tokens: Counter[str] = field(default_factory=Counter)  # by source; as usage tells where they are unknown
    unverified: Counter[str] = field(default_factory=Counter)  # by reason
    predicted_tokens: Counter[str] = field(default_factory=Counter)  # by source, of those verified
    actual_tokens: Counter[str] = field(default_factory=Counter)
    over_tokens: int = 0  # predicted and not there
    evicted_tokens: int = 0  # of those, what may have been evicted after the decision, as far as events tell
    under: int = 0  # tokens that were there and not predicted
    under_tokens: Counter[str] = field(default_factory=Counter)  # the same by where they came from, once that is told
    miscounted: int = 0  # the engine counted another number of prompt tokens
    confirmed: int = 0  # prompts whose new blocks events told of soon after the end
    unconfirmed: Counter[str] = field(default_factory=Counter)  # and those they did not, by kind
    # Not predictions: tokens that were to come from L2 by an estimate, beyond what was predicted or on its way.
    estimated_tokens: int = 0
    estimated_compared_tokens: int = 0  # of those, where usage told what was found
    estimated_found_tokens: int = 0  # and what of them was

    def coverage(self, source: str) -> float:
        """The share of all prompt tokens whose prediction was verified so; 0.0 where there were none."""
        total = sum(self.prompt_tokens.values())
        return self.prompt_tokens[source] / total if total else 0.0
