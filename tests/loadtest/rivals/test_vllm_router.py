"""vllm-router's kv_aware."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.vllm_router import VllmRouterKvAware
from tests.loadtest.rivals.hand_made import asked_tokens


@pytest.mark.parametrize(
    ("cached", "new_tokens"),
    [
        ({}, 1050),
        ({"l0_tokens": 300}, 750),
        ({"l0_tokens": 300, "l1_tokens": 200}, 590),  # 1050 - 300 - 0.8 * 200
        ({"l0_tokens": 300, "l2_tokens": 200}, 630),  # 1050 - 300 - 0.6 * 200
        ({"l0_tokens": 300, "l1_tokens": 200, "l2_tokens": 100}, 570),  # storage's is the longer one: 0.6 * 300
        ({"l1_tokens": 1}, 1050),  # 1049.2, rounded up
    ],
)
def test_tiers_are_credited(cached: dict[str, int], new_tokens: int) -> None:
    """One continuation below the GPU's prefix counts, the longest, by its tier."""
    view, tokens = VllmRouterKvAware().select(asked_tokens(1050), [View(0, **cached)])

    assert (view.number, tokens) == (0, new_tokens)


@pytest.mark.parametrize(("prompt_tokens", "new_tokens"), [(1000, 100), (1001, 1)])
def test_the_last_tokens_block_is_never_credited(prompt_tokens: int, new_tokens: int) -> None:
    """A prompt that is cached to its end has one block to compute, for its last token must be."""
    assert (
        VllmRouterKvAware().select(asked_tokens(prompt_tokens), [View(0, l0_tokens=1000)]).prefill_tokens == new_tokens
    )


@pytest.mark.parametrize(("waiting_tokens", "chosen"), [(390, 0), (410, 1)])
def test_cost_is_tokens_to_compute_times_requests(waiting_tokens: int, chosen: int) -> None:
    """(400 + W) * 3 against (1000 + 200) * 2: 2400."""
    views = [View(0, l0_tokens=600, inflight=2, pending_tokens=waiting_tokens), View(1, inflight=1, pending_tokens=200)]

    assert VllmRouterKvAware().select(asked_tokens(), views).view.number == chosen
