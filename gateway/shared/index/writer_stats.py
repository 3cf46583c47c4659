"""WriterStats: what a writer did, for metrics. Counts only ever grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class WriterStats:
    """Written by the writer alone."""

    blocks_written: int = 0
    epochs: Counter[str] = field(default_factory=Counter)  # opened, by reason
    locks_lost: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # commands, by Redis's error code
