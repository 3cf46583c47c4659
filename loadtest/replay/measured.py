"""Measured: one run's figures, and what was run."""

from __future__ import annotations

from typing import NamedTuple

from loadtest.replay.figures import Figures


class Cell(NamedTuple):
    """What the strategies are compared in. ``scenario``: all that differs from the usual, in words."""

    trace: str
    requests: int  # asked for, per run
    replicas: int
    load: float
    scenario: str

    def __str__(self) -> str:
        rest = f", {self.scenario}" if self.scenario else ""
        return f"{self.trace}, {self.replicas} replicas, load {self.load:g}{rest}"


class Measured(NamedTuple):
    """``seed`` pairs runs: of one cell and seed all strategies had the same requests at the same times."""

    cell: Cell
    strategy: str
    seed: int
    code: str  # which version of the code ran
    figures: Figures
