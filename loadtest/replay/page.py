"""The page: a comparison as one HTML file that needs nothing else, neither a network nor JavaScript."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from loadtest.replay import report
from loadtest.replay.comparison import TTFT_MEAN, Comparison
from loadtest.replay.measured import Cell
from loadtest.replay.page_style import STYLE
from loadtest.replay.table import Table

_TITLE = "Strategies compared"
_STEPS = (1.02, 1.1, 1.5, 3.0)  # of the ratio to a cell's best, for the shade of a field


class Drawn(NamedTuple):
    """Plots, as SVG elements."""

    ratios: str
    hits: str
    balance: str
    latencies: Mapping[Cell, str]


def page(comparison: Comparison, drawn: Drawn | None, *, command: str, notes: Sequence[str] = ()) -> str:
    """The whole text; the same for the same comparison."""
    sections = [
        _section("Time to first token", _ttft(comparison, drawn)),
        _section("How much of the prompts was found", _hits(drawn)),
        _section("Balance", _balance(drawn)),
        _section("Cell by cell", [_explained(_HEAT), _heat(comparison), *_cells(comparison, drawn)]),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_TITLE}</title>'
    body = "\n".join([*_opening(comparison, command, notes), *filter(None, sections)])
    style = f"<style>{STYLE}</style>"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}{style}</head>\n<body>\n{body}\n</body></html>\n'


_TTFT = (
    "Each strategy's time to first token over the baseline's, geometric mean of all cells, with 95 % confidence: from "
    "the seeds where there is one cell, else from a bootstrap over the cells. Left of 1 is faster. Strategies that can "
    "be chosen are blue, rivals are grey."
)
_FOUND = (
    "Share of the prompt tokens that a tier of KV memory had; mean of a trace's cells. The line is what one cache would"
    " find that never forgets and that all share."
)
_BALANCED = (
    "Left: standard deviation over mean of the replicas' queues in uncached prompt tokens, mean over the moments when "
    "any was waiting. Right: the longest queue in tokens, mean over time."
)
_HEAT = (
    "Mean time to first token over that of the cell's best strategy: 1.00 is the best; a shade for 1.02, 1.1, 1.5, 3."
)


def _opening(comparison: Comparison, command: str, notes: Sequence[str]) -> list[str]:
    cells = comparison.cells
    seeds = sorted({comparison.seeds(cell, name) for cell in cells for name in comparison.ranked(cell)})
    counts = f"{len(comparison.strategies)} strategies, {len(cells)} cells, {'-'.join(map(str, seeds))} seeds"
    what = f"{counts}; simulated replicas and simulated time. Baseline: {comparison.baseline}."
    return [
        f"<h1>{_TITLE}</h1>",
        f"<p>{escape(what)}</p>",
        f"<pre>{escape(command)}</pre>",
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
    ]


def _ttft(comparison: Comparison, drawn: Drawn | None) -> list[str]:
    verdicts = "\n".join(report.verdicts(comparison))
    return [
        _explained(_TTFT),
        *([_figure(drawn.ratios, "TTFT by strategy, over the baseline's")] if drawn else []),
        f"<pre>{escape(verdicts)}</pre>",
        _table(report.summary_table(comparison)),
    ]


def _hits(drawn: Drawn | None) -> list[str]:
    return [_explained(_FOUND), _figure(drawn.hits, "Share of prompt tokens found, by tier")] if drawn else []


def _balance(drawn: Drawn | None) -> list[str]:
    return [_explained(_BALANCED), _figure(drawn.balance, "Imbalance and longest queue")] if drawn else []


def _cells(comparison: Comparison, drawn: Drawn | None) -> Iterable[str]:
    is_open = " open" if len(comparison.cells) == 1 else ""
    for cell in comparison.cells:
        plot = _figure(drawn.latencies[cell], f"TTFT in {cell}") if drawn else ""
        table = _table(report.cell_table(comparison, cell))
        yield f"<details{is_open}><summary>{escape(str(cell))}</summary>{plot}{table}</details>"


def _heat(comparison: Comparison) -> str:
    names = comparison.strategies
    header = "".join(f'<th class="tall"><span>{escape(name)}</span></th>' for name in names)
    rows = "".join(_heat_row(comparison, cell, names) for cell in comparison.cells)
    return f'<div class="wide"><table class="heat"><tr><th></th>{header}</tr>{rows}</table></div>'


def _heat_row(comparison: Comparison, cell: Cell, names: Sequence[str]) -> str:
    best = comparison.typical(cell, comparison.ranked(cell)[0], TTFT_MEAN)
    fields = []
    for name in names:
        if not comparison.seeds(cell, name):
            fields.append("<td></td>")
            continue
        ratio = comparison.typical(cell, name, TTFT_MEAN) / best
        shade = sum(ratio > step for step in _STEPS)
        fields.append(f'<td class="shade{shade}">{f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"}</td>')
    return f"<tr><th>{escape(str(cell))}</th>{''.join(fields)}</tr>"


def _table(table: Table) -> str:
    columns = range(len(table.header))
    kinds = ["" if table.is_words(column) else ' class="number"' for column in columns]
    header = "".join(f"<th{kinds[column]}>{escape(table.header[column])}</th>" for column in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td{kinds[column]}>{escape(row[column])}</td>" for column in columns) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.title)}</caption>"
    return f'<div class="wide"><table>{caption}<tr>{header}</tr>{rows}</table></div>'


def _figure(svg: str, label: str) -> str:
    return f'<figure role="img" aria-label="{escape(label)}">{svg}</figure>'


def _explained(text: str) -> str:
    return f'<p class="explained">{escape(text)}</p>'


def _section(title: str, parts: Sequence[str]) -> str:
    return "\n".join([f"<section><h2>{escape(title)}</h2>", *parts, "</section>"]) if parts else ""
