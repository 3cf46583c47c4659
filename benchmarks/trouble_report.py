"""What a trouble cost, over all its rounds, and the table of all troubles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.steady_load import Sample
from loadtest.closed_loop import percentile

#: Which of the gateways only reads.
READER = 1
#: How many took at most so many seconds, by upper bound, as a histogram has it.
Counts = dict[float, float]

_HEAD = (
    "", "asked", "failed", "TTFT p50 ms", "p99", "max", "match p50 ms", "p99", "blind", "matches s", "equal s", "lines",
)  # fmt: skip


@dataclass(slots=True)
class Result:
    """Of one trouble, over all rounds."""

    healthy: list[Sample] = field(default_factory=list)
    troubled: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    healthy_match: Counts = field(default_factory=dict)
    troubled_match: Counts = field(default_factory=dict)
    matches_s: list[float] = field(default_factory=list)
    equal_s: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        read = [sample for sample in self.troubled if sample.gateway == READER]
        blind = sum("index_unavailable" in sample.reason for sample in read)
        return (
            str(len(self.troubled)),
            str(len(self.failures)),
            *(f"{_ttft_ms(self.healthy, share)} {_ttft_ms(self.troubled, share)}" for share in (0.5, 0.99, 1.0)),
            *(f"{_quantile(self.healthy_match, s)} {_quantile(self.troubled_match, s)}" for s in (0.5, 0.99)),
            f"{blind / max(1, len(read)):.0%}",
            f"{max(self.matches_s):.1f}",
            f"{max(self.equal_s):.1f}",
            str(max(self.lines)),
        )


def add_counts(total: Counts, after: Mapping[float, float], before: Mapping[float, float]) -> None:
    """What came between ``before`` and ``after``, to ``total``."""
    for bound, count in after.items():
        total[bound] = total.get(bound, 0) + count - before.get(bound, 0)


def table(results: Mapping[str, Result]) -> str:
    """One trouble a line. Two numbers in a cell: without it, and with it."""
    rows = [_HEAD, *((name, *result.row()) for name, result in results.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _ttft_ms(samples: Sequence[Sample], share: float) -> str:
    return f"{percentile((sample.ttft_s for sample in samples), share) * 1000:.0f}"


def _quantile(counts: Mapping[float, float], share: float) -> str:
    """Milliseconds, of a histogram: within a bucket as if all were spread evenly."""
    wanted = share * max(counts.values(), default=0)
    lower, below = 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= wanted > below:
            return (
                f">{lower * 1000:g}"
                if bound == float("inf")
                else (f"{(lower + (bound - lower) * (wanted - below) / (count - below)) * 1000:.1f}")
            )
        lower, below = bound, count
    return "-"
