"""Tally: what happened to workers so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    """``connections_lost``: open ones of workers that died, as they last told."""

    deaths: int = 0
    replacements: int = 0
    connections_lost: int = 0
