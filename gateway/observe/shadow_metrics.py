"""ShadowMetrics: how often shadows agree, and what heeding them would have saved or lost by prediction.

To be used by the event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.observe.counts import Counts, Labels
from gateway.observe.shadow_page import ShadowTotals
from gateway.router.shadow import Regret


class ShadowMetrics(Collector):
    """The book of :class:`gateway.router.shadow.Shadows`. ``shadows``: their names."""

    def __init__(self, shadows: Collection[str]) -> None:
        self._decisions = Counts(
            "prefixway_shadow_decisions", "First choices by whether the shadow agrees", "shadow", "strategy", "agreed"
        )
        self._seconds = Counts(
            "prefixway_shadow_seconds",
            "Predicted seconds before the first token that the shadow would have saved or lost, where it differs",
            "shadow",
            "strategy",
            "effect",
        )
        self._cached_tokens = Counts(
            "prefixway_shadow_cached_tokens",
            "Expected cached tokens that the shadow would have gained or lost, where it differs",
            "shadow",
            "strategy",
            "effect",
        )
        self._failures = Counts("prefixway_shadow_failures", "Choices that a shadow failed to make", "shadow")
        for shadow in shadows:
            self._failures.begin((shadow,))
        self._pairs: dict[tuple[str, str], None] = {}  # who was asked while who was heeded, in order

    def collect(self) -> Iterable[Metric]:
        families = self._decisions, self._seconds, self._cached_tokens, self._failures
        return (family.family() for family in families)

    def status(self) -> list[dict[str, object]]:
        """For /status: a row for each shadow and strategy that was heeded meanwhile."""
        return [self._totals(pair).row(*pair) for pair in self._pairs]

    # ShadowBook

    def agreed(self, shadow: str, strategy: str) -> None:
        self._begun(shadow, strategy)
        self._decisions[shadow, strategy, "yes"] += 1

    def differed(self, shadow: str, strategy: str, regret: Regret) -> None:
        self._begun(shadow, strategy)
        seconds, cached_tokens = regret
        self._decisions[shadow, strategy, "no"] += 1
        self._seconds[shadow, strategy, "saved" if seconds > 0 else "lost"] += abs(seconds)
        if cached_tokens:
            effect = "gained" if cached_tokens > 0 else "lost"
            self._cached_tokens[shadow, strategy, effect] += abs(cached_tokens)

    def failed(self, shadow: str) -> None:
        self._failures[(shadow,)] += 1

    def _begun(self, shadow: str, strategy: str) -> None:
        """All series of a pair begin together: else a rate would miss what comes first."""
        pair = shadow, strategy
        if pair in self._pairs:
            return
        self._pairs[pair] = None
        for agreed in ("yes", "no"):
            self._decisions.begin((*pair, agreed))
        for effect in ("saved", "lost"):
            self._seconds.begin((*pair, effect))
        for effect in ("gained", "lost"):
            self._cached_tokens.begin((*pair, effect))

    def _totals(self, pair: Labels) -> ShadowTotals:
        agreed, differed = (int(self._decisions[*pair, said]) for said in ("yes", "no"))
        saved_s, lost_s = (self._seconds[*pair, effect] for effect in ("saved", "lost"))
        gained, lost = (self._cached_tokens[*pair, effect] for effect in ("gained", "lost"))
        return ShadowTotals(agreed + differed, agreed, saved_s, lost_s, gained - lost)
