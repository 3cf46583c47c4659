"""Comparison: what was predicted of many requests against what vLLM counted; what was left out of it, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.vllm.asking import Asked


class Comparison:
    """Over the requests of which something was predicted or cached; tokens where a name says so."""

    def __init__(self, asked: Iterable[Asked]) -> None:
        self.asked = list(asked)
        self.left_out = Counter(one.left_out for one in self.asked if one.left_out)
        pairs = [(one.predicted or 0, one.actual or 0) for one in self.asked if not one.left_out]
        compared = [pair for pair in pairs if any(pair)]
        self.requests = len(compared)
        self.equal = sum(predicted == actual for predicted, actual in compared)
        self.predicted_tokens = sum(predicted for predicted, _ in compared)
        self.actual_tokens = sum(actual for _, actual in compared)
        self.over_tokens = sum(max(0, predicted - actual) for predicted, actual in compared)
        self.under_tokens = sum(max(0, actual - predicted) for predicted, actual in compared)

    @property
    def miscounted(self) -> list[Asked]:
        """Whose prompt has another number of tokens for the engine than for the gateway."""
        return [one for one in self.asked if None not in (one.counted, one.prompt) and one.counted != one.prompt]

    @property
    def equal_share(self) -> float:
        """Of the requests."""
        return self.equal / max(1, self.requests)

    @property
    def token_error(self) -> float:
        """All tokens predicted that were not there and there that were not predicted, of those that were there."""
        return (self.over_tokens + self.under_tokens) / max(1, self.actual_tokens)

    @property
    def left_out_share(self) -> float:
        """Of all requests."""
        return self.left_out.total() / max(1, len(self.asked))

    def report(self, name: str) -> str:
        """What a person wants to read: the figures, and each request that was not as predicted."""
        lines = [
            f"{name}: {len(self.asked)} requests, {self.requests} of them with tokens predicted or cached",
            f"  equal {self.equal_share:.1%} of them, error {self.token_error:.2%} of {self.actual_tokens} tokens",
            f"  over {self.over_tokens}, under {self.under_tokens} tokens",
            f"  left out {self.left_out_share:.1%}: {dict(self.left_out)}",
        ]
        others = (one for one in self.asked if not one.left_out and one.predicted != one.actual)
        lines += [
            f"  {one.label} at {one.replica}, {one.reason}: {one.tiers} predicted, {one.actual} cached of {one.prompt}"
            for one in others
        ]
        return "\n".join(lines)
