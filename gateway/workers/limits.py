"""Limits: how long a worker may take for what, before its supervisor acts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long what may take. A worker that dies younger than ``young_s`` is replaced after a pause."""

    leave_s: float
    start_s: float = 60.0
    silent_s: float = 10.0
    ready_s: float = 60.0
    young_s: float = 5.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
