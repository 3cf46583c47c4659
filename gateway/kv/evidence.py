"""Evidence: what requests showed of one engine process, recently.

Pure. Predicted is what events said at the decision that the replica held of a prompt; actual is what the engine then
counted as cached. The counts fade, by :meth:`Evidence.halve`, so that they tell of the recent past: whoever keeps them
halves all of them together as requests and time pass, so shares of one another stay right, and a count of zero stays
zero. They are therefore not whole numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.kv.counted import Counted


@dataclass(slots=True)
class Evidence(Counted):
    """Tokens where the name says so, else requests."""

    requests: float = 0.0  # that ended well, and whose prompt was known here
    compared: float = 0.0  # of them: the engine told the cached tokens, and the prediction was fit to be compared
    predicted_tokens: float = 0.0  # of those compared
    actual_tokens: float = 0.0
    prompt_tokens: float = 0.0
    over_tokens: float = 0.0  # sum of max(0, predicted - actual)
    under_tokens: float = 0.0  # the other way round
    evicted_tokens: float = 0.0  # of over_tokens, what may have been evicted after the decision, as far as events tell
    unverified: Counter[str] = field(default_factory=Counter)  # not compared, by reason
    miscounted: float = 0.0  # the engine counted another number of prompt tokens: another template or tokenizer
    confirmed: float = 0.0  # prompts whose first block events told of soon after the end
    unconfirmed: float = 0.0  # and those whose first block they did not
    unconfirmed_kinds: Counter[str] = field(default_factory=Counter)  # of those: plain, salted, lora

    @property
    def over_share(self) -> float:
        """Of the tokens predicted, those that were not there and not evicted since; 0.0 where none was predicted."""
        return (self.over_tokens - self.evicted_tokens) / self.predicted_tokens if self.predicted_tokens else 0.0

    def halve(self) -> None:
        """Let everything seen so far weigh half."""
        self.requests /= 2
        self.compared /= 2
        self.predicted_tokens /= 2
        self.actual_tokens /= 2
        self.prompt_tokens /= 2
        self.over_tokens /= 2
        self.under_tokens /= 2
        self.evicted_tokens /= 2
        self.miscounted /= 2
        self.confirmed /= 2
        self.unconfirmed /= 2
        _halve(self.unverified)
        _halve(self.unconfirmed_kinds)


def _halve(counts: Counter[str]) -> None:
    """Those that hardly weigh any more are dropped."""
    for reason, count in list(counts.items()):
        if count < _NOTHING:
            del counts[reason]
        else:
            counts[reason] = count / 2  # type: ignore[assignment]  # a Counter of floats, which its type cannot say


_NOTHING = 0.01
