"""What shadows would have done, as JSON: of one gateway, or of several together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class ShadowTotals:
    """Of one shadow while one strategy was heeded.

    ``saved_s`` and ``lost_s``: predicted seconds before the first token, of choices that differ, had the shadow been
    heeded. ``cached_tokens``: how many more it would have found, or fewer.
    """

    decisions: int = 0
    agreed: int = 0
    saved_s: float = 0.0
    lost_s: float = 0.0
    cached_tokens: float = 0.0

    def row(self, shadow: str, strategy: str) -> dict[str, object]:
        """For /status. Means are per decision, also of those that agree."""
        decisions = self.decisions or 1
        return {
            "shadow": shadow,
            "strategy": strategy,
            "decisions": self.decisions,
            "agreed": self.agreed,
            "agreement": round(self.agreed / decisions, 4),
            "saved_s": round(self.saved_s, 6),
            "lost_s": round(self.lost_s, 6),
            "mean_regret_s": round((self.saved_s - self.lost_s) / decisions, 6),
            "cached_tokens": self.cached_tokens,
        }


def merged_shadows(pages: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, object]]:
    """Rows of several gateways, added up, in the order of their first appearance."""
    totals: dict[tuple[str, str], ShadowTotals] = defaultdict(ShadowTotals)
    for row in (row for page in pages for row in page):
        total = totals[str(row["shadow"]), str(row["strategy"])]
        total.decisions += row["decisions"]
        total.agreed += row["agreed"]
        total.saved_s += row["saved_s"]
        total.lost_s += row["lost_s"]
        total.cached_tokens += row["cached_tokens"]
    return [total.row(*names) for names, total in totals.items()]
