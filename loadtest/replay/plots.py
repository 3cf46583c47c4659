"""Plots of a comparison, as SVG elements for :mod:`loadtest.replay.page`. Needs matplotlib.

Colours are written as names that the page gives a value, light or dark; text is text, in the page's letters. The same
comparison gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from loadtest.replay.comparison import TTFT_MEAN, TTFT_P99, Comparison
from loadtest.replay.contender import RIVAL
from loadtest.replay.measured import Cell
from loadtest.replay.page import Drawn

# What stands for the page's colours until the SVG is written.
_INK, _MUTED, _LINE, _PAPER = "#010101", "#010102", "#010103", "#010104"
_OURS, _RIVAL, _LIMIT = "#010105", "#010106", "#010107"
_TIERS = {"l0": "#010108", "l1": "#010109", "l2": "#01010a"}
_PERCENTILES = {"p50": "#01010b", "p90": "#01010c", "p99": "#01010d"}
_COLOURS = {
    _INK: "ink", _MUTED: "muted", _LINE: "line", _PAPER: "paper", _OURS: "ours", _RIVAL: "rival", _LIMIT: "limit",
    **{colour: name for names in (_TIERS, _PERCENTILES) for name, colour in names.items()},
}  # fmt: skip
_LOOKS: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "replay", "font.size": 10.0, "text.color": _INK, "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED, "xtick.color": _MUTED, "ytick.color": _INK, "grid.color": _LINE, "axes.grid": True,
    "axes.grid.axis": "x", "axes.axisbelow": True, "axes.facecolor": "none", "figure.facecolor": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "ytick.major.size": 0.0,
    "axes.titlesize": 10.0, "axes.titlelocation": "left", "legend.frameon": False, "xtick.minor.size": 0.0,
    "figure.constrained_layout.use": True, "text.parse_math": False,  # a file's name may have any letters
}  # fmt: skip
_WIDTH, _ROW, _MARGIN = 10.0, 0.24, 0.9  # inches
_OCTAVE, _DECADE, _PLENTY = 2.0, 8.0, 99
_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def draw(comparison: Comparison) -> Drawn:
    """All plots of a page."""
    with mpl.rc_context(_LOOKS):
        return Drawn(
            ratios=_ratios(comparison),
            hits=_hits(comparison),
            balance=_balance(comparison),
            latencies={
                cell: _latencies(comparison, cell, f"latency{number}") for number, cell in enumerate(comparison.cells)
            },
        )


def _ratios(comparison: Comparison) -> str:
    names = [name for name in comparison.strategies if comparison.overall(name, TTFT_MEAN)]
    figure, (left, right) = _figure(len(names), 1, 2)
    for axes, ttft, title in ((left, TTFT_MEAN, "mean"), (right, TTFT_P99, "99th percentile")):
        for row, name in enumerate(names):
            interval = comparison.overall(name, ttft)
            assert interval is not None  # noqa: S101 - those without were left out
            if interval.low is not None and interval.high is not None:
                axes.plot([interval.low, interval.high], [row, row], color=_colour(name), linewidth=1.6)
            axes.plot([interval.value], [row], "o", color=_colour(name), markersize=5.5)
            at = interval.high or interval.value
            axes.annotate(f"{interval.value:.2f}", (at, row), (6, 0), textcoords="offset points", va="center", size=8)
        axes.axvline(1.0, color=_MUTED, linewidth=0.9)
        _log(axes, f"TTFT over {comparison.baseline}'s, {title}")
        axes.margins(x=0.12)
    _name_rows(left, names)
    return _svg(figure, "ratios")


def _hits(comparison: Comparison) -> str:
    names = comparison.strategies
    traces = sorted({cell.trace for cell in comparison.cells})
    columns = min(3, len(traces))
    rows = -(-len(traces) // columns)
    figure, panels = _figure(len(names), rows, columns)
    tiers = [tier for tier in _TIERS if any(comparison.average(name, f"hit_{tier}") for name in names)] or ["l0"]
    for axes, trace in zip(panels, traces, strict=False):
        cells = [cell for cell in comparison.cells if cell.trace == trace]
        found = [0.0] * len(names)
        for tier in tiers:
            shares = [_mean(comparison, cells, name, f"hit_{tier}") for name in names]
            axes.barh(range(len(names)), shares, 0.72, found, color=_TIERS[tier], label=tier.upper())
            found = [before + share for before, share in zip(found, shares, strict=True)]
        bound = max(_mean(comparison, cells, name, "bound") for name in names)
        axes.axvline(bound, color=_LIMIT, linewidth=1.4, label="never forgets")
        axes.set_title(trace)
        axes.set_xlim(0, max(bound, *found, 0.01) * 1.06)
        axes.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    for axes in panels[len(traces) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        _name_rows(axes, names)
    _legend(figure, panels[0])
    return _svg(figure, "hits")


def _balance(comparison: Comparison) -> str:
    names = comparison.strategies
    figure, (left, right) = _figure(len(names), 1, 2)
    for axes, what in ((left, "imbalance"), (right, "longest_queue_tokens")):
        for row, name in enumerate(names):
            value = comparison.average(name, what)
            axes.plot([0, value], [row, row], color=_colour(name), linewidth=1.6)
            axes.plot([value], [row], "o", color=_colour(name), markersize=5.5)
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", nbins=5)
    left.set_xlabel("imbalance")
    right.set_xlabel("longest queue, thousands of tokens")
    right.xaxis.set_major_formatter(lambda tokens, _: f"{tokens / 1000:g}")
    _name_rows(left, names)
    return _svg(figure, "balance")


def _latencies(comparison: Comparison, cell: Cell, identifier: str) -> str:
    names = comparison.ranked(cell)
    figure, (axes,) = _figure(len(names), 1, 1)
    for row, name in enumerate(names):
        values = [comparison.mean(cell, name, f"ttft_{percentile}_s") for percentile in _PERCENTILES]
        axes.plot([values[0], values[-1]], [row, row], color=_LINE, linewidth=3, zorder=1)
        for value, (percentile, colour) in zip(values, _PERCENTILES.items(), strict=True):
            axes.plot([value], [row], "o", color=colour, markersize=6, label="" if row else percentile)
    _log(axes, "TTFT in seconds")
    _name_rows(axes, names)
    _legend(figure, axes)
    return _svg(figure, identifier)


def _figure(names: int, rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """Axes that share their rows, the first strategy uppermost; left to right, then down."""
    figure = Figure(figsize=(_WIDTH, rows * (names * _ROW + _MARGIN)))
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    panels[0, 0].set_ylim(names - 0.4, -0.6)
    for axes in panels.flat:
        axes.tick_params(axis="y", labelleft=False)
    return figure, list(panels.flat)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelleft=True)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(_MUTED if name.startswith(RIVAL) else _INK)


def _log(axes: Axes, label: str) -> None:
    """A logarithmic axis with ticks that can be read, however short it is."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high / low > _DECADE else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    axes.xaxis.set_major_locator(MaxNLocator(6) if high / low < _OCTAVE else LogLocator(subs=subs, numticks=_PLENTY))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(label)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), handlelength=1.2)


def _colour(name: str) -> str:
    return _RIVAL if name.startswith(RIVAL) else _OURS


def _mean(comparison: Comparison, cells: Sequence[Cell], name: str, figure: str) -> float:
    """Over those of the cells it was run in; 0 where it was in none."""
    values = [comparison.mean(cell, name, figure) for cell in cells if comparison.seeds(cell, name)]
    return fmean(values) if values else 0.0


def _svg(figure: Figure, identifier: str) -> str:
    """As an element of an HTML page: names of its own, the page's colours, no address of anything."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_METADATA)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r'(?<=[ "(])(id="|href="#|url\(#)', lambda match: f"{match[1]}{identifier}-", text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    for colour, name in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return re.sub(r"[ \t]*\n\s*", "\n", text).strip()
