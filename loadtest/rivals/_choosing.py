"""What the rivals' formulas share: the fewest requests, ties at random, and the tokens that a match leaves over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from loadtest.rivals._types import Pick, RivalRequest, View


def least(views: Sequence[View], cost: Callable[[View], float], random: Random) -> View:
    """The one that costs least; of equal ones any."""
    costs = [cost(view) for view in views]
    lowest = min(costs)
    ties = [view for view, own in zip(views, costs) if own == lowest]
    return ties[0] if len(ties) == 1 else random.choice(ties)


def fewest_requests(views: Sequence[View], random: Random) -> View:
    """The one with the fewest requests in flight; of equal ones any."""
    return least(views, _requests, random)


def pick(request: RivalRequest, view: View, matched_blocks: int = 0) -> Pick:
    """``view``, where the first ``matched_blocks`` blocks of the prompt are believed to be."""
    return Pick(view, max(0, request.prompt_tokens - matched_blocks * request.block_tokens))


def _requests(view: View) -> float:
    return view.inflight
