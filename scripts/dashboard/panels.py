"""Panels: what is said with which query. Does not know how Grafana writes it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

#: Colours from a value on; the first has no lower end.
Steps = Sequence[tuple[str, float | None]]


class Form(Enum):
    """How a panel looks; the value is Grafana's name of its kind."""

    LINES = "timeseries"
    STACK = "timeseries, stacked"
    BARS = "timeseries, bars"  # for what mostly does not happen
    NUMBERS = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Panel:
    """``queries``: by legend, which may name labels: ``{{replica}}``; of a table by column. ``unit``: Grafana's.

    ``steps``: colours, of lines as thresholds. ``most``: the end of the axis, where it is known. ``nothing``: what
    numbers show where there are none. ``columns``: of a table, those that differ: unit and colours by column.
    """

    title: str
    description: str
    queries: Mapping[str, str]
    form: Form = Form.LINES
    unit: str = "short"
    width: int = 8  # of 24
    steps: Steps = ()
    most: float | None = None
    nothing: str = ""
    columns: Mapping[str, tuple[str, Steps]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """``good``: what is good to see here, and what to do else."""

    title: str
    good: str
    panels: Sequence[Panel]
    height: int = 8
