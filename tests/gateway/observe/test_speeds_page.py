"""What is learned of speeds, for people."""

from __future__ import annotations

import json

import pytest

from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.speeds import Speeds
from gateway.observe.speeds_page import merged_speeds, speeds_page


def test_every_rate_beside_its_prior() -> None:
    """With how many samples had something of it, and how long the last of them is ago."""
    speeds = Speeds()
    for _ in range(200):
        speeds.prefill_seen(PrefillSample(0.25, 0.1, tokens=1_000.0, steps=1.0), 30.0)
    page = json.loads(json.dumps(speeds_page(speeds, 42.0)))
    rates = page["rates"]

    assert page["samples"] == 200
    assert rates["prefill_tokens_s"]["learned"] == pytest.approx(4_400, rel=0.2)
    assert (rates["prefill_tokens_s"]["prior"], rates["prefill_tokens_s"]["samples"]) == (8_000, 200)
    assert [rates[name]["age_s"] for name in ("step_s", "l1_tokens_s")] == [12.0, None]


def test_of_several_workers_the_one_that_saw_most_is_shown() -> None:
    """And where no worker tells of it, nothing."""
    pages = [{"samples": 3, "calibration": 1.5}, {"samples": 5, "calibration": 1.4}, {}]

    assert merged_speeds(pages) == pages[1]
    assert merged_speeds([]) == {}
