"""What came of one request."""

from __future__ import annotations

from loadtest.replay.outcome import Served


def test_the_time_to_the_first_token_counts_from_the_arrival() -> None:
    row = Served(
        arrived_s=10.0,
        first_token_s=12.5,
        finished_s=20.0,
        replica=0,
        prompt_tokens=100,
        output_tokens=5,
        l0_tokens=0,
        l1_tokens=0,
        l2_tokens=0,
        alone_s=0.5,
    )
    assert row.ttft_s == 2.5
