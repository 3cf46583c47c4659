"""round_robin: a fair rotation."""

from __future__ import annotations

from collections import Counter

from router_strategies import Candidate, RouteRequest, load


def _turns(speeds: dict[str, float], count: int) -> list[str]:
    strategy = load("round_robin")
    fleet = [Candidate(id_, speed=speed) for id_, speed in speeds.items()]
    return [strategy.select(RouteRequest(0, model="m"), fleet).candidate.id for _ in range(count)]


def test_each_in_turn() -> None:
    """Three equal replicas follow each other."""
    assert _turns({"a": 1, "b": 1, "c": 1}, 6) == ["a", "b", "c", "a", "b", "c"]


def test_shares_follow_speed() -> None:
    """A replica of speed 3 gets three times as much, spread out."""
    assert Counter(_turns({"a": 3, "b": 1}, 40)) == {"a": 30, "b": 10}


def test_models_rotate_apart() -> None:
    """Alternating requests for two models still give each replica half of each."""
    strategy = load("round_robin")
    seen: Counter[tuple[str, str]] = Counter()
    for _ in range(10):
        for model in "mn":
            seen[
                model,
                strategy.select(RouteRequest(0, model=model), [Candidate("a"), Candidate("b")]).candidate.id,
            ] += 1

    assert set(seen.values()) == {5}


def test_order_of_candidates_does_not_matter() -> None:
    """Shuffled candidates still get equal shares."""
    strategy = load("round_robin")
    seen: Counter[str] = Counter()
    for number in range(30):
        order = "abc"[number % 3 :] + "abc"[: number % 3]
        seen[strategy.select(RouteRequest(0, model="m"), [Candidate(id_) for id_ in order]).candidate.id] += 1

    assert set(seen.values()) == {10}
