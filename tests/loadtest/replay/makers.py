"""Makers of runs for a grid's tests: at the top of a module, so that other processes find them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from loadtest.replay.figures import Figures
from loadtest.replay.grid import Run
from loadtest.replay.scenario import Scenario
from tests.loadtest.replay.hand_made import CELL, FIGURES


def runs(*labels: str, seeds: int = 1, source: str = "chats") -> list[Run]:
    return [Run(CELL, label, seed, source, Scenario(), label) for seed in range(1, seeds + 1) for label in labels]


def seed_is_ttft(run: Run) -> Figures:
    """Fails for "bad"; ends its whole process for "deadly"; never comes back from "endless"."""
    if run.label == "bad":
        raise ValueError("no luck")
    if run.label == "deadly":
        os._exit(9)
    if run.label == "endless":
        Path(run.source).write_text(str(os.getpid()))
        time.sleep(600)
    return replace(FIGURES, ttft_mean_s=float(run.seed))
