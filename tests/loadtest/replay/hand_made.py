"""Runs by hand: what a replay might have given."""

from __future__ import annotations

from dataclasses import replace

from loadtest.replay.figures import Figures
from loadtest.replay.measured import Cell, Measured
from loadtest.replay.outcome import Served

CELL = Cell("chats", 2000, 8, 0.6, "")
OTHER = Cell("chats", 2000, 8, 0.6, "3 gateways")
FIGURES = Figures(1800, 0, 0.3, 0.1, 0.05, 0.6, 1.0, 0.5, 2.0, 4.0, 0.9, 0.5, 20_000.0, 9000.0)


def measured(strategy: str, *ttfts: float, cell: Cell = CELL, code: str = "c0de") -> list[Measured]:
    """One run a seed, with that mean TTFT; the 99th percentile is four times that."""
    return [
        Measured(cell, strategy, seed, code, replace(FIGURES, ttft_mean_s=ttft, ttft_p99_s=4 * ttft))
        for seed, ttft in enumerate(ttfts, 1)
    ]


def served(arrived_s: float, ttft_s: float, *, prompt: int = 100, l0: int = 0, alone_s: float = 0.0) -> Served:
    first_s = arrived_s + ttft_s
    return Served(arrived_s, first_s, first_s + 1, 0, prompt, 10, l0, 0, 0, alone_s)
