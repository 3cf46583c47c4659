"""What a strategy need not say."""

from __future__ import annotations

from collections.abc import Sequence

from router_strategies import Candidate, Choice, RouteRequest, Strategy


class First(Strategy):
    """Says only what it must."""

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        return Choice(candidates[0], "only_candidate")


def test_one_that_tells_no_costs_has_none() -> None:
    """It may choose by anything."""
    assert First().costs(RouteRequest(0), [Candidate("a")]) == ()
