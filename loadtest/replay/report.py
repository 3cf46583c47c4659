"""Report: what a comparison says, as tables and sentences, for a terminal, a page and a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TextIO

from loadtest.replay.comparison import TTFT_MEAN, TTFT_P99, Behind, Comparison
from loadtest.replay.confidence import LEAST_PAIRS, Interval
from loadtest.replay.measured import Cell
from loadtest.replay.table import Table

_FIGURES = (
    "counted", "errors", "hit", "hit_l0", "hit_l1", "hit_l2", "bound", TTFT_MEAN, "ttft_p50_s", "ttft_p90_s", TTFT_P99,
    "goodput", "imbalance", "longest_queue_tokens",
)  # fmt: skip
_NAMES = {TTFT_MEAN: "mean TTFT", TTFT_P99: "p99 of TTFT"}
EVERYWHERE = "all cells"


def text(comparison: Comparison) -> str:
    """All of it: every cell, the summary, and where the baseline is behind."""
    parts = [str(cell_table(comparison, cell)) for cell in comparison.cells]
    return "\n\n".join([*parts, str(summary_table(comparison)), "\n".join(verdicts(comparison))])


def cell_table(comparison: Comparison, cell: Cell) -> Table:
    """A line a strategy, the best one first."""
    header = (
        "strategy", "TTFT s", "p50", "p90", "p99", f"TTFT / {comparison.baseline}", f"p99 / {comparison.baseline}",
        "hit", "L0", "L1", "L2", "good", "imbalance", "longest queue", "decisions/s",
    )  # fmt: skip
    ranked = comparison.ranked(cell)
    seeds = max(comparison.seeds(cell, name) for name in ranked)
    bound = comparison.mean(cell, ranked[0], "bound")
    title = f"{cell} ({cell.requests} requests; {_seeds(seeds)}; a cache that never forgets would hit {bound:.1%})"
    return Table(title, header, [_cell_row(comparison, cell, name) for name in ranked])


def summary_table(comparison: Comparison) -> Table:
    """Over all cells, the best strategy first."""
    header = (
        "strategy", f"TTFT / {comparison.baseline}", f"p99 / {comparison.baseline}", "hit", "good", "imbalance",
        "longest queue", "near best", "farthest behind a cell's best",
    )  # fmt: skip
    title = f"{_cells(len(comparison.cells))}: geometric means of ratios (95 % confidence), means of the rest"
    return Table(title, header, [_summary_row(comparison, name) for name in comparison.strategies])


def verdicts(comparison: Comparison) -> list[str]:
    """Where the baseline is more than 10 % behind a cell's best, in sentences."""
    name = comparison.baseline
    sentences = []
    for figure, words in _NAMES.items():
        behind = comparison.behind(name, figure)
        sure = [one for one in behind if one.ratio.low is not None]
        unsure = [one for one in behind if one.ratio.low is None]
        where = "".join(f"\n  {_behind(one)}" for one in sure) or " nowhere"
        sentences.append(f"{words}: {name} is more than 10 % behind the best with 95 % confidence:{where}")
        if unsure:
            where = "".join(f"\n  {_behind(one)}" for one in unsure)
            sentences.append(f"{words}: with too few seeds to be sure, {name} is more than 10 % behind:{where}")
        if maybe := comparison.maybe_behind(name, figure):
            worst = max(maybe, key=lambda one: one.ratio.value)
            where = f"in {_cells(len(maybe), of=len(comparison.run_in(name)))}, farthest in {_behind(worst)}"
            sentences.append(f"{words}: {name} is more than 10 % behind by the mean alone, without confidence, {where}")
    return sentences


def write_summary(comparison: Comparison, file: TextIO) -> None:
    """As CSV: a line a cell and strategy, then one a strategy over all cells; nothing in it depends on real time."""
    ratios = [f"{figure}_ratio{end}" for figure in _NAMES for end in ("", "_low", "_high")]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*Cell._fields, "strategy", "seeds", *_FIGURES, *ratios])
    for cell in comparison.cells:
        for name in comparison.ranked(cell):
            figures = [f"{comparison.mean(cell, name, figure):.6g}" for figure in _FIGURES]
            ends = [word for figure in _NAMES for word in _ends(comparison.ratio(cell, name, figure))]
            writer.writerow([*cell, name, comparison.seeds(cell, name), *figures, *ends])
    for name in comparison.strategies:
        figures = [f"{comparison.average(name, figure):.6g}" for figure in _FIGURES]
        ends = [word for figure in _NAMES for word in _ends(comparison.overall(name, figure))]
        writer.writerow([EVERYWHERE, "", "", "", "", name, "", *figures, *ends])


def _cell_row(comparison: Comparison, cell: Cell, name: str) -> list[str]:
    def mean(figure: str) -> float:
        return comparison.mean(cell, name, figure)

    return [
        name,
        *(f"{mean(figure):.3f}" for figure in (TTFT_MEAN, "ttft_p50_s", "ttft_p90_s", TTFT_P99)),
        *(_ratio(comparison.ratio(cell, name, figure)) for figure in _NAMES),
        *(f"{mean(figure):.1%}" for figure in ("hit", "hit_l0", "hit_l1", "hit_l2", "goodput")),
        f"{mean('imbalance'):.2f}",
        f"{mean('longest_queue_tokens'):,.0f}",
        f"{mean('decisions_s'):,.0f}",
    ]


def _summary_row(comparison: Comparison, name: str) -> list[str]:
    worst = comparison.worst(name)
    return [
        name,
        *(_ratio(comparison.overall(name, figure)) for figure in _NAMES),
        *(f"{comparison.average(name, figure):.1%}" for figure in ("hit", "goodput")),
        f"{comparison.average(name, 'imbalance'):.2f}",
        f"{comparison.average(name, 'longest_queue_tokens'):,.0f}",
        f"{comparison.near_best(name)}/{len(comparison.run_in(name))}",
        f"x{worst.ratio.value:.2f} in {worst.cell}",
    ]


def _behind(behind: Behind) -> str:
    return f"{behind.cell}: x{behind.ratio} of {behind.best}"


def _ratio(interval: Interval | None) -> str:
    return "-" if interval is None else str(interval)


def _ends(interval: Interval | None) -> Iterator[str]:
    ends: Sequence[float | None] = (interval.value, interval.low, interval.high) if interval else (None, None, None)
    return ("" if end is None else f"{end:.6g}" for end in ends)


def _seeds(seeds: int) -> str:
    if seeds >= LEAST_PAIRS:
        return f"{seeds} seeds"
    return f"{'one seed' if seeds == 1 else f'{seeds} seeds'}: too few for confidence"


def _cells(cells: int, *, of: int = 0) -> str:
    if of > 1:
        return f"{cells} of {of} cells"
    return "the one cell" if cells == 1 else f"all {cells} cells"
