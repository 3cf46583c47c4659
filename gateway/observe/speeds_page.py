"""What is learned of speeds, as JSON, of one gateway or of several workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.fleet.speeds import Speeds


def speeds_page(speeds: Speeds, now: float) -> dict[str, object]:
    """Every rate of a replica of speed 1.0 with its prior and what it was learned from, units as its name says.

    ``samples`` with something of a rate in them, and the seconds since the last of these (``age_s``; ``None``: never).
    """
    return {
        "calibration": _short(speeds.rates.calibration),
        "samples": speeds.samples,
        "rates": {
            rate.name: {
                "learned": _short(rate.value),
                "prior": rate.prior,
                "samples": rate.samples,
                "age_s": None if rate.last_s is None else round(now - rate.last_s, 1),
            }
            for rate in speeds.learned()
        },
        "decode_s": round(speeds.decode_s, 3),
        "output_tokens": round(speeds.output_tokens, 1),
    }


def merged_speeds(pages: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """As the worker has it that saw most: they tell each other, so all of them know about the same."""
    return max(pages, key=lambda page: int(page.get("samples", 0)), default={})


def _short(value: float) -> float:
    return float(f"{value:.4g}")
