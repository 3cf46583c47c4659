"""Comparison: many strategies' figures side by side, paired by seed, cell by cell and over all cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean, geometric_mean
from typing import NamedTuple

from loadtest.replay.confidence import Interval, of_cells, of_pairs
from loadtest.replay.figures import Figures
from loadtest.replay.measured import Cell, Measured

TTFT_MEAN, TTFT_P99 = "ttft_mean_s", "ttft_p99_s"
BEHIND = 1.1
NEAR_BEST = 1.02


class Behind(NamedTuple):
    """A cell where a strategy is behind the best one; ``ratio``: of its figure to the best one's."""

    cell: Cell
    best: str
    ratio: Interval


class Comparison:
    """``baseline``: the strategy that all are compared to. Of runs with the same cell, strategy and seed the last one
    counts. What has a name of a figure is about any figure that is better when it is lower.
    """

    def __init__(self, measured: Sequence[Measured], baseline: str) -> None:
        self.baseline = baseline
        self._seeds: dict[tuple[Cell, str], dict[int, Figures]] = {}
        self._ranked: dict[tuple[Cell, str], list[str]] = {}
        for one in sorted(measured, key=lambda one: one[:3]):
            self._seeds.setdefault((one.cell, one.strategy), {})[one.seed] = one.figures

    @cached_property
    def cells(self) -> list[Cell]:
        return sorted({cell for cell, _ in self._seeds})

    @cached_property
    def strategies(self) -> list[str]:
        """The best one over all cells first; those that share no cell with the baseline last."""
        names = {strategy for _, strategy in self._seeds}
        overall = {name: self.overall(name, TTFT_MEAN) for name in names}
        return sorted(names, key=lambda name: (interval.value if (interval := overall[name]) else float("inf"), name))

    def ranked(self, cell: Cell, figure: str = TTFT_MEAN) -> Sequence[str]:
        """The strategies that were run in a cell, the best one first: by the geometric mean over their seeds."""
        if (cell, figure) not in self._ranked:
            there = [strategy for strategy in self._names if (cell, strategy) in self._seeds]
            self._ranked[cell, figure] = sorted(there, key=lambda name: (self.typical(cell, name, figure), name))
        return self._ranked[cell, figure]

    def seeds(self, cell: Cell, strategy: str) -> int:
        return len(self._seeds.get((cell, strategy), ()))

    def mean(self, cell: Cell, strategy: str, figure: str) -> float:
        """Over the seeds; ``figure``: any attribute of :class:`Figures`. Raises ``KeyError``: it was not run."""
        return fmean(getattr(figures, figure) for figures in self._seeds[cell, strategy].values())

    def typical(self, cell: Cell, strategy: str, figure: str) -> float:
        """Geometric mean over the seeds. Raises ``KeyError``: it was not run."""
        return geometric_mean(getattr(figures, figure) for figures in self._seeds[cell, strategy].values())

    def ratio(self, cell: Cell, strategy: str, figure: str, to: str = "") -> Interval | None:
        """Of its figure to the one of ``to`` (usually the baseline) in one cell; ``None``: they share no seed."""
        ours, theirs = (self._seeds.get((cell, name), {}) for name in (strategy, to or self.baseline))
        pairs = [getattr(ours[seed], figure) / getattr(theirs[seed], figure) for seed in ours if seed in theirs]
        return of_pairs(pairs) if pairs else None

    def overall(self, strategy: str, figure: str) -> Interval | None:
        """Geometric mean of the ratios to the baseline over the cells that have both; ``None``: there are none."""
        ratios = [ratio for cell in self.cells if (ratio := self.ratio(cell, strategy, figure))]
        if len(ratios) == 1:
            return Interval(ratios[0].value, ratios[0].low, ratios[0].high)
        return of_cells([ratio.value for ratio in ratios]) if ratios else None

    def average(self, strategy: str, figure: str) -> float:
        """Mean over the cells it was run in."""
        return fmean(self.mean(cell, strategy, figure) for cell in self.run_in(strategy))

    def run_in(self, strategy: str) -> list[Cell]:
        """The cells it was run in."""
        return [cell for cell in self.cells if (cell, strategy) in self._seeds]

    def worst(self, strategy: str, figure: str = TTFT_MEAN) -> Behind:
        """The cell where it is farthest behind the cell's best."""
        return max(self._against_best(strategy, figure), key=lambda behind: behind.ratio.value)

    def near_best(self, strategy: str, figure: str = TTFT_MEAN) -> int:
        """Cells where it is at most 2 % behind the cell's best."""
        return sum(behind.ratio.value <= NEAR_BEST for behind in self._against_best(strategy, figure))

    def behind(self, strategy: str, figure: str, *, by: float = BEHIND) -> list[Behind]:
        """The cells where it is more than ``by`` behind the cell's best with 95 % confidence, or, with too few seeds
        for any confidence, at all.
        """
        all_ = self._against_best(strategy, figure)
        return [one for one in all_ if (one.ratio.value if one.ratio.low is None else one.ratio.low) > by]

    def maybe_behind(self, strategy: str, figure: str, *, by: float = BEHIND) -> list[Behind]:
        """The cells where it is that far behind by the mean of its seeds, but not with 95 % confidence."""
        all_ = self._against_best(strategy, figure)
        return [one for one in all_ if one.ratio.low is not None and one.ratio.low <= by < one.ratio.value]

    @cached_property
    def _names(self) -> list[str]:
        return sorted({strategy for _, strategy in self._seeds})

    def _against_best(self, strategy: str, figure: str) -> list[Behind]:
        found = []
        for cell in self.run_in(strategy):
            best = self.ranked(cell, figure)[0]
            ratio = self.ratio(cell, strategy, figure, to=best)
            found.append(Behind(cell, best, ratio or _unpaired(self, cell, strategy, best, figure)))
        return found


def _unpaired(comparison: Comparison, cell: Cell, strategy: str, best: str, figure: str) -> Interval:
    """For two that share no seed."""
    typical = [comparison.typical(cell, name, figure) for name in (strategy, best)]
    return Interval(typical[0] / typical[1])
